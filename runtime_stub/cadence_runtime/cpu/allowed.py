"""The ops that a CPU plan may hold: those that compute tensors from their operands, and check what they index.

A plan is a program from outside, and torch has ops that a program from outside must not reach: they set the process's
switches, change what memory a tensor stands on, take tensors apart unchecked (sparse, quantized, nested and packed,
LAPACK's pivots), or are there for training. So the list says what runs, and nothing else does. A name stands for all
its overloads, for its in-place form (`add_`) and for its form over lists (`_foreach_add`).
"""

FAMILIES = ("fft_", "special_")
RESHAPING = frozenset(
    ["as_strided_", "detach_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"]
)
"""In-place forms that change the shape of a tensor which the next replay finds again."""

NAMES = frozenset(
    """
__and__ __iand__ __ilshift__ __ior__ __irshift__ __ixor__ __lshift__ __or__ __rshift__ __xor__ _adaptive_avg_pool2d
_adaptive_avg_pool3d _add_relu _addmm_activation _aminmax _assert_async _batch_norm_no_update
_batch_norm_with_update _batch_norm_with_update_functional _cdist_forward _conj _conj_copy _conj_physical
_convolution _cummax_helper _cummin_helper _euclidean_dist _fft_c2c _fft_c2r _fft_r2c _functional_assert_async
_fused_dropout _fused_rms_norm _index_put_impl _int_mm _is_all_true _is_any_true _linalg_det _linalg_eigh
_linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd _local_scalar_dense _log_softmax _logcumsumexp
_masked_softmax _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
_neg_view _neg_view_copy _nnpack_spatial_convolution _pad_circular _pdist_forward _prelu_kernel _reshape_alias
_reshape_alias_copy _reshape_copy _safe_softmax _scaled_dot_product_attention_math
_scaled_dot_product_flash_attention_for_cpu _slow_conv2d_forward _softmax _stack _to_copy _trilinear _unique
_unique2 _unsafe_index _unsafe_index_put _unsafe_view _upsample_bicubic2d_aa _upsample_bilinear2d_aa
_upsample_lanczos2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm
_weight_norm_interface abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm addmv addr adjoint
affine_grid_generator alias all allclose alpha_dropout amax amin aminmax angle any arange arccos arccosh arcsin
arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere as_strided as_strided_copy as_strided_scatter asin
asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool3d baddbmm bartlett_window
batch_norm bernoulli bilinear binary_cross_entropy binary_cross_entropy_with_logits bincount bitwise_and
bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman_window block_diag bmm
broadcast_tensors broadcast_to bucketize cartesian_prod cat cauchy cdist ceil celu chalf channel_shuffle cholesky
cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clip clone col2im column_stack combinations complex
concat concatenate conj conj_physical constant_pad_nd contiguous conv1d conv2d conv3d conv_tbc conv_transpose1d
conv_transpose2d conv_transpose3d convolution copy copysign corrcoef cos cosh cosine_embedding_loss
cosine_similarity count_nonzero cov cross cross_entropy_loss cummax cummin cumprod cumsum cumulative_trapezoid
deg2rad det detach detach_copy diag diag_embed diagflat diagonal diagonal_copy diagonal_scatter diff digamma dist
div divide dot dropout dsplit dstack einsum elu embedding empty empty_like empty_permuted empty_strided eq equal erf
erfc erfinv exp exp2 expand expand_as expand_copy expm1 exponential eye feature_alpha_dropout feature_dropout fill
fill_diagonal fix flatten flip fliplr flipud float_power floor floor_divide fmax fmin fmod frac frexp frobenius_norm
full full_like gather gcd ge gelu geometric ger glu gradient greater greater_equal grid_sampler_2d grid_sampler_3d
group_norm gt hamming_window hann_window hardshrink hardsigmoid hardswish hardtanh heaviside hinge_embedding_loss
histc histogram hsplit hstack huber_loss hypot i0 igamma igammac im2col imag index index_add index_copy index_fill
index_put index_reduce index_select inner instance_norm inverse is_nonzero isclose isfinite isin isinf isnan
isneginf isposinf isreal istft kaiser_window kl_div kron kthvalue l1_loss layer_norm lcm ldexp le leaky_relu lerp
less less_equal lgamma lift_fresh lift_fresh_copy linalg__powsum linalg_cholesky linalg_cholesky_ex linalg_cond
linalg_cross linalg_det linalg_diagonal linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_inv
linalg_inv_ex linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_matmul linalg_matrix_exp linalg_matrix_norm
linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr linalg_slogdet
linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve
linalg_vander linalg_vecdot linalg_vector_norm linear linspace log log10 log1p log2 log_normal log_sigmoid
log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or
logical_xor logit logspace logsumexp lt mH mT margin_ranking_loss masked_fill masked_scatter masked_select matmul
matrix_H matrix_exp matrix_power max max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices
max_pool3d max_pool3d_with_indices maximum mean median meshgrid min minimum mish mkldnn_rnn_layer mm mode moveaxis
movedim mse_loss msort mul multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward multinomial
multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow narrow_copy native_batch_norm
native_channel_shuffle native_dropout native_group_norm native_layer_norm native_norm ne neg negative new_empty
new_empty_strided new_full new_ones new_zeros nextafter nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward
nll_loss_nd nonzero nonzero_static norm norm_except_dim normal normal_functional not_equal nuclear_norm one_hot ones
ones_like outer pad pad_sequence pairwise_distance pdist permute permute_copy pixel_shuffle pixel_unshuffle poisson
poisson_nll_loss polar polygamma positive pow prelu prod put quantile rad2deg rand rand_like randint randint_like
randn randn_like random randperm range ravel real reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu
relu6 remainder repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d reshape reshape_as
resolve_conj resolve_neg rms_norm roll rot90 round row_stack rrelu rrelu_with_noise rrelu_with_noise_functional
rsqrt rsub scalar_tensor scaled_dot_product_attention scatter scatter_add scatter_reduce searchsorted select
select_copy select_scatter selu sgn sigmoid sign signbit silu sin sinc sinh slice slice_copy slice_scatter slogdet
slow_conv3d slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d
smooth_l1_loss soft_margin_loss softmax softplus softshrink sort split split_copy split_with_sizes
split_with_sizes_copy sqrt square squeeze squeeze_copy stack std std_mean stft sub subtract sum swapaxes swapdims t
t_copy take take_along_dim tan tanh tensor_split tensordot thnn_conv2d threshold tile to topk trace transpose
transpose_copy trapezoid trapz triangular_solve tril tril_indices triplet_margin_loss triu triu_indices true_divide
trunc type_as unbind unbind_copy unflatten unfold unfold_backward unfold_copy uniform unique_consecutive unique_dim
unique_dim_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy upsample_bicubic2d
upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
vander var var_mean vdot view view_as view_as_complex view_as_complex_copy view_as_real view_as_real_copy view_copy
vsplit vstack where xlogy zero zeros zeros_like
""".split()  # noqa: SIM905 - a list of a line each would take eight pages
)


def is_allowed(base: str) -> bool:
    """Return whether an op of aten, by its name without namespace and overload, may be part of a plan."""
    if base in RESHAPING:
        return False
    plain = base.removeprefix("_foreach_").removesuffix("_")
    return base in NAMES or plain in NAMES or base.startswith(FAMILIES)

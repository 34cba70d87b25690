"""Why a session of an executor can do no more."""

from cadence_runtime.errors import DeviceError, SessionError


def plan_closed() -> SessionError:
    return SessionError("CAD7052", "the plan is closed", expected="a loaded plan", got="a closed one")


def session_ended() -> SessionError:
    return SessionError(
        "CAD7053",
        "the session has ended",
        expected="an open session",
        got="a closed one",
        hint="open another session",
    )


def device_failed(failure: DeviceError) -> DeviceError:
    if failure.code == "CAD8021":
        return failure
    return DeviceError(
        "CAD8020",
        "the device failed, and its sessions have ended",
        expected="a device that works",
        got=f"{failure.code}: {failure.what}" + (f"; {failure.got}" if failure.got else ""),
        at=failure.at,
        hint="load the plan again",
    )

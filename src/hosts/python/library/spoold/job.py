"""One scheduled task, as it is returned to who scheduled it and given to signals."""

import enum
import uuid
from typing import Any, Dict, NamedTuple, Tuple, Union


class JobStatus(enum.Enum):
    NOT_SET = 0
    #: it starts in the future
    WAITING = 1
    QUEUED = 2
    RUNNING = 3
    SUCCEEDED = 4
    #: it will not run again
    FAILED = 5


class Job(NamedTuple):
    #: a UUID, if the writer gave one
    id: Any
    status: JobStatus
    task_name: str
    queue: str
    #: aware, in UTC
    at: Any
    max_retries: Union[int, float]
    #: how many runs there were before
    retries: int
    task_args: Tuple[Any, ...]
    task_kwargs: Dict[str, Any]

    def __str__(self):
        return 'Job <%s %s>' % (self.task_name, self.id)


def id_in(text):
    """The id in a packet; None if there is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return text or None

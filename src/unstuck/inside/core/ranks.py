"""Which rank this process is: by its process group, by who spawned it, or by the launcher's variables.

And which environment variables are kept of a rank, by their exact names.
"""

from __future__ import annotations

import os

from .. import format as f
from .recorder import Recorder

# Rank, local rank, world size: torchrun and what follows it, Slurm's srun, Open MPI, other MPIs.
RANK_VARIABLES = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
)
REQUEUES = 1000  # restarts by the launcher are counted anew after each

# Variables that change how ranks meet and talk, by their exact names: as the user guides of NCCL and torch and gloo's
# own source have them. Others that only begin alike may be anybody's, and hold anything.
KEPT_VARIABLES = frozenset((
    "GLOO_ASYNC_TIMEOUT_DEBUG", "GLOO_DEVICE_TRANSPORT", "GLOO_DISABLE_CONNECTION_RETRIES",
    "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "GLOO_ENABLE_STORE_V2_API", "GLOO_LOG_LEVEL", "GLOO_SOCKET_IFNAME",
    "NCCL_ALGO", "NCCL_ALLOC_P2P_NET_LL_BUFFERS", "NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "NCCL_BUFFSIZE",
    "NCCL_CHECKS_DISABLE", "NCCL_CHECK_POINTERS", "NCCL_COLLNET_ENABLE", "NCCL_COLLNET_NODE_THRESHOLD",
    "NCCL_COMM_BLOCKING", "NCCL_COMM_ID", "NCCL_CONF_FILE", "NCCL_CREATE_THREAD_CONTEXT", "NCCL_CROSS_NIC",
    "NCCL_CTA_POLICY", "NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE", "NCCL_DEBUG", "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_TIMESTAMP_FORMAT", "NCCL_DEBUG_TIMESTAMP_LEVELS", "NCCL_DESYNC_DEBUG",
    "NCCL_DMABUF_ENABLE", "NCCL_ENABLE_TIMING", "NCCL_GDRCOPY_ENABLE", "NCCL_GRAPH_DUMP_FILE", "NCCL_GRAPH_FILE",
    "NCCL_GRAPH_MIXING_SUPPORT", "NCCL_GRAPH_REGISTER", "NCCL_GRAPH_STREAM_ORDERING", "NCCL_HOSTID",
    "NCCL_IB_ADAPTIVE_ROUTING", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_AR_THRESHOLD",
    "NCCL_IB_CUDA_SUPPORT", "NCCL_IB_DATA_DIRECT", "NCCL_IB_DISABLE", "NCCL_IB_ECE_ENABLE", "NCCL_IB_FIFO_TC",
    "NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_IB_MERGE_NICS", "NCCL_IB_MERGE_VFS", "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_RETRY_CNT", "NCCL_IB_RETURN_ASYNC_EVENTS", "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_SL", "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_IB_TC", "NCCL_IB_TIMEOUT", "NCCL_IB_USE_INLINE",
    "NCCL_IGNORE_CPU_AFFINITY", "NCCL_IGNORE_DISABLED_P2P", "NCCL_LAUNCH_MODE", "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LAUNCH_RACE_FATAL", "NCCL_LL_BUFFSIZE", "NCCL_LL_THRESHOLD", "NCCL_LOCAL_REGISTER", "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", "NCCL_MAX_P2P_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_NRINGS", "NCCL_MIN_P2P_NCHANNELS", "NCCL_MNNVL_CLIQUE_ID", "NCCL_MNNVL_ENABLE", "NCCL_MNNVL_UUID",
    "NCCL_NCHANNELS_PER_NET_PEER", "NCCL_NET", "NCCL_NETDEVS_POLICY", "NCCL_NET_DISABLE_INTRA",
    "NCCL_NET_FORCE_MERGE", "NCCL_NET_GDR_C2C", "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_NET_MERGE_LEVEL",
    "NCCL_NET_PLUGIN", "NCCL_NET_SHARED_BUFFERS", "NCCL_NET_SHARED_COMMS", "NCCL_NSOCKS_PERTHREAD", "NCCL_NTHREADS",
    "NCCL_NVB_DISABLE", "NCCL_NVLSTREE_MAX_CHUNKSIZE", "NCCL_NVLS_ENABLE", "NCCL_NVLS_NCHANNELS",
    "NCCL_OOB_NET_ENABLE", "NCCL_OOB_NET_IFNAME", "NCCL_P2P_DIRECT_DISABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL",
    "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_PXN_LEVEL", "NCCL_PROFILER_PLUGIN", "NCCL_PROTO", "NCCL_PXN_DISABLE",
    "NCCL_RAS_ADDR", "NCCL_RAS_ENABLE", "NCCL_RAS_TIMEOUT_FACTOR", "NCCL_RINGS", "NCCL_RUNTIME_CONNECT",
    "NCCL_SET_STACK_SIZE", "NCCL_SET_THREAD_NAME", "NCCL_SHM_DISABLE", "NCCL_SINGLE_RING_THRESHOLD",
    "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS", "NCCL_SOCKET_POLL_TIMEOUT_MSEC",
    "NCCL_SOCKET_RETRY_CNT", "NCCL_SOCKET_RETRY_SLEEP_MSEC", "NCCL_SYM_CTAS", "NCCL_TOPO_DUMP_FILE", "NCCL_TOPO_FILE",
    "NCCL_TREE_THRESHOLD", "NCCL_TUNER_PLUGIN", "NCCL_WARN_ENABLE_DEBUG_INFO", "NCCL_WIN_ENABLE",
    "NCCL_WORK_ARGS_BYTES", "NCCL_WORK_FIFO_BYTES", "TORCH_CPP_LOG_LEVEL", "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_DISTRIBUTED_USE_TORCHCOMMS", "TORCH_FR_BUFFER_SIZE", "TORCH_FR_CPP_STACK",
    "TORCH_FR_DUMP_DYNAMIC_FILE_NAME", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_GLOO_LAZY_INIT",
    "TORCH_NCCL_ABORT_IN_DESTROY_PG", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_AVOID_RECORD_STREAMS",
    "TORCH_NCCL_BCAST_UNIQUEID", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_COORD_CHECK_MILSEC",
    "TORCH_NCCL_CUDA_EVENT_CACHE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_NCCL_DESYNC_DEBUG", "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_ENABLE_MONITORING",
    "TORCH_NCCL_ENABLE_TIMING", "TORCH_NCCL_EXTRA_DUMP_ON_EXEC", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    "TORCH_NCCL_HIGH_PRIORITY", "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", "TORCH_NCCL_NAN_CHECK",
    "TORCH_NCCL_NONBLOCKING_TIMEOUT", "TORCH_NCCL_PROPAGATE_ERROR", "TORCH_NCCL_RANKS_PER_ROOT",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS", "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING",
    "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_TRACE_CPP_STACK", "TORCH_NCCL_USE_COMM_NONBLOCKING",
    "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "TP_SOCKET_IFNAME",
))  # fmt: skip


class Known:
    """What is known better than from variables. A forked worker has its parent's."""

    __slots__ = ("local_rank", "rank", "world")

    def __init__(self) -> None:
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.world: int | None = None


known = Known()


def write_rank(recorder: Recorder) -> None:
    """Into the header. It is asked for again with every pass: the variables may be set by the program itself."""
    told = _variables()
    rank, local_rank, world = (
        better if better is not None else variable
        for better, variable in zip((known.rank, known.local_rank, known.world), told, strict=True)
    )
    words = recorder.words
    if rank is not None:
        words[f.H_RANK] = rank + 1
    if local_rank is not None:
        words[f.H_LOCAL_RANK] = local_rank + 1
    if world is not None:
        words[f.H_WORLD] = world
    words[f.H_ATTEMPT] = _number("SLURM_RESTART_COUNT", 0) * REQUEUES + _number("TORCHELASTIC_RESTART_COUNT", 0)


def _variables() -> tuple[int | None, int | None, int | None]:
    """Of the first launcher that has set a rank. One task of Slurm's is no distributed run: sbatch sets that, too."""
    for rank, local_rank, world in RANK_VARIABLES:
        if os.environ.get(rank, "").isdigit():
            size = _number(world, 1)
            if rank == "RANK" or size > 1:
                return _number(rank, 0), _maybe(local_rank), size
    return None, None, None


def _maybe(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else None


def _number(name: str, otherwise: int) -> int:
    value = _maybe(name)
    return otherwise if value is None else value

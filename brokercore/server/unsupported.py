"""Requests about parts that another kind of broker has, and what the caller is told (docs/operate/mqadmin.md)."""

from __future__ import annotations

from brokercore.protocol.codes import RequestCode as Code

_PERMISSIONS = "users and their permissions are managed in Gantry's console, not with ACL requests"
_COLD = "messages are in Redis: there is no cold data on disk to control"
_ROCKSDB = "messages and configuration are in Redis: there is no RocksDB"
_CONTROLLER = "this is a broker without replicas: it has no controller and no epochs"
_CONTAINER = "this is a broker, not a container of brokers: start another one with GANTRY_BROKERS"

REFUSED: dict[int, str] = {
    **dict.fromkeys(range(Code.AUTH_CREATE_USER, Code.AUTH_LIST_ACL + 1), _PERMISSIONS),
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _COLD,
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _COLD,
    Code.GET_COLD_DATA_FLOW_CTR_INFO: _COLD,
    Code.SET_COMMITLOG_READ_MODE: "messages are in Redis: there is no commit log to read ahead",
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _ROCKSDB,
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: _ROCKSDB,
    Code.POP_ROLLBACK: "what POP has in flight is in Redis and is read by every version: there is nothing to roll back",
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: "static topics are not supported: create a topic with UPDATE_AND_CREATE_TOPIC",
    Code.ADD_BROKER: _CONTAINER,
    Code.REMOVE_BROKER: _CONTAINER,
    Code.RESET_MASTER_FLUSH_OFFSET: _CONTROLLER,
    Code.GET_BROKER_EPOCH_CACHE: _CONTROLLER,
    **dict.fromkeys(
        (
            Code.CONTROLLER_ELECT_MASTER, Code.CONTROLLER_GET_METADATA_INFO, Code.CONTROLLER_GET_SYNC_STATE_DATA,
            Code.UPDATE_CONTROLLER_CONFIG, Code.GET_CONTROLLER_CONFIG, Code.CLEAN_BROKER_DATA,
        ),
        _CONTROLLER,
    ),
}  # fmt: skip
"""What every signed caller is told."""

"""Every command of mqadmin 5.3.3 as an operator types it, and what must be in its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PERMISSIONS = "are managed in Gantry's console"
CONTROLLER = "a broker without replicas"
COLD, ROCKSDB, CONTAINER = "there is no cold data", "there is no RocksDB", "not a container of brokers"


@dataclass(frozen=True)
class Command:
    """One line: words with `{names}` of the scene, and a text that its output has."""

    line: str
    says: str

    @property
    def name(self) -> str:
        """The command's name."""
        return self.line.split()[0]

    def words(self, scene: Mapping[str, str]) -> list[str]:
        """The words, with the names of a scene put in."""
        return [word.format_map(scene) for word in self.line.split()]


def _works(*rows: tuple[str, str]) -> tuple[Command, ...]:
    return tuple(Command(line, says) for line, says in rows)


FIRST = _works(
    ("updateTopic -c {cluster} -t {name} -r 1 -w 1", "create topic to"),
    ("updateTopic -b {broker} -t New -r 2 -w 2 -a +message.type=FIFO", "message.type"),
)
"""What later commands need: `sendMsgStatus` and `clusterRT` send to a topic with the broker's name."""

RELAYED = _works(
    ("consumerStatus -g {group} -i {client} -s", "Consumer jstack"),
    ("queryMsgById -t {topic} -i {offset_id} -g {group} -d {client}", "CR_SUCCESS"),
    ("queryMsgByUniqueKey -t {topic} -i {unique_id} -g {group} -d {client}", "CR_SUCCESS"),
)
"""Asked of a client through the broker: mqadmin gives it 5 s, so nothing else runs beside these."""

MAIN = _works(
    ("updateTopicList -c {cluster} -f {topics}", "submit batch of topic config to"),
    ("updateSubGroup -c {cluster} -g GID_new", "create subscription group to"),
    ("updateSubGroupList -c {cluster} -f {groups}", "submit batch of subscription group config to"),
    ("updateKvConfig -s NS -k a -v b", "success"),
    ("updateOrderConf -t {topic} -m put -v {name}:2", "update orderConf success"),
    ("updateTopicPerm -c {cluster} -t New -p 4", "from 6 to 4"),
    ("setConsumeMode -c {cluster} -t {topic} -g {idle} -m POP -q 0", "success"),
    ("updateBrokerConfig -b {broker} -k fileReservedTime -v 48", "update broker config success"),
    ("updateBrokerConfig -c {cluster} -k brokerName -v other", "brokerName cannot be changed while the broker runs"),
    ("getBrokerConfig -b {broker}", "fileReservedTime"),
    ("getBrokerConfig -c {cluster}", "Master: {broker}"),
    ("getNamesrvConfig", "listenPort"),
    ("updateNamesrvConfig -k a -v b", "a cannot be changed"),
    ("clusterList", "V5_3_3"),
    ("clusterList -m", "#InTotalToday"),
    ("topicList", "{topic}"),
    ("topicList -c", "{group}"),
    ("topicRoute -t {topic}", "{broker}"),
    ("topicRoute -t {topic} -l", "{broker}"),
    ("topicStatus -t {topic}", "#Max Offset"),
    ("topicClusterList -t {topic}", "{cluster}"),
    ("brokerStatus -b {broker}", "V5_3_3"),
    ("brokerStatus -c {cluster}", "commitLogDiskRatio"),
    ("brokerConsumeStats -b {broker} -l 0", "Diff Total"),
    ("statsAll", "{group}"),
    ("statsAll -a -t {topic}", "#InMsg24Hour"),
    ("haStatus -b {broker}", "#SlaveNum	0"),
    ("haStatus -c {cluster}", "#InSyncSlaveNum	0"),
    ("cleanExpiredCQ -b {broker}", "success"),
    ("cleanUnusedTopic -c {cluster}", "success"),
    ("deleteExpiredCommitLog -b {broker}", "success"),
    ("producer -b {broker}", "CLIENT_INNER_PRODUCER"),
    ("producerConnection -g CLIENT_INNER_PRODUCER -t {topic}", "JAVA"),
    ("consumerConnection -g {group}", "{topic}"),
    ("consumerProgress", "{group}"),
    ("consumerProgress -g {group}", "Consume Diff Total"),
    ("consumerProgress -g {group} -t {topic} -s true", "{topic}"),
    ("getConsumerConfig -g {group}", "retryMaxTimes"),
    ("cloneGroupOffset -s {group} -d {idle} -t {topic} -o true", "clone group offset success"),
    ("resetOffsetByTime -g {idle} -t {topic} -s now", "start reset consumer offset"),
    ("resetOffsetByTime -g {idle} -t {topic} -s 0 -b {broker} -q 0 -o 0", "reset consumer offset to 0"),
    ("skipAccumulatedMessage -g {idle} -t {topic}", "#offset"),
    ("allocateMQ -t {topic} -i 10.0.0.1,10.0.0.2", '"10.0.0.2":['),
    ("sendMessage -t {topic} -p hello -k K9 -c TagZ", "SEND_OK"),
    ("checkMsgSendRT -t {topic} -a 2 -s 10", "Avg RT"),
    ("sendMsgStatus -b {name} -c 1 -s 10", "SEND_OK"),
    ("queryMsgById -t {topic} -i {offset_id}", "{unique_id}"),
    ("queryMsgByKey -t {topic} -k K1", "{unique_id}"),
    ("queryMsgByUniqueKey -t {topic} -i {unique_id}", "Store Timestamp"),
    ("queryMsgByOffset -t {topic} -b {name} -i {queue} -o 0", "{unique_id}"),
    ("queryMsgTraceById -i {traced_id}", "{producers}"),
    ("printMsg -t {topic}", "{unique_id}"),
    ("printMsgByQueue -t {topic} -a {name} -i {queue} -p true -d true -f true", "{unique_id}"),
    ("consumeMessage -t {topic} -b {name} -i {queue} -o 0 -c 1", "{unique_id}"),
    ("queryCq -t {topic} -q {queue} -i 0 -c 2 -b {broker}", "physicOffset"),
    ("exportMetadata -c {cluster} -f {exports}", "metadata.json success"),
    ("exportConfigs -c {cluster} -f {exports}", "configs.json success"),
    ("exportMetrics -c {cluster} -f {exports}", "metrics.json success"),
    # Refused: permissions
    ("createUser -b {broker} -u someone -p secret", PERMISSIONS),
    ("updateUser -b {broker} -u someone -p secret", PERMISSIONS),
    ("deleteUser -b {broker} -u someone", PERMISSIONS),
    ("getUser -b {broker} -u someone", PERMISSIONS),
    ("listUser -b {broker}", PERMISSIONS),
    ("copyUser -f {broker} -t {broker}", PERMISSIONS),
    ("createAcl -b {broker} -s User:u -r Topic:* -a Pub -d Allow", PERMISSIONS),
    ("updateAcl -b {broker} -s User:u -r Topic:* -a Pub -d Allow", PERMISSIONS),
    ("deleteAcl -b {broker} -s User:u", PERMISSIONS),
    ("getAcl -b {broker} -s User:u", PERMISSIONS),
    ("listAcl -b {broker}", PERMISSIONS),
    ("copyAcl -f {broker} -t {broker}", PERMISSIONS),
    # Refused: parts of another kind of store, or of replicas
    ("addBroker -c {broker} -b {exports}/broker.conf", CONTAINER),
    ("removeBroker -c {broker} -b {cluster}:{name}:0", CONTAINER),
    ("resetMasterFlushOffset -b {broker} -o 1", CONTROLLER),
    ("getSyncStateSet -a {broker} -c {cluster} -b {name}", CONTROLLER),
    ("getBrokerEpoch -b {name}", CONTROLLER),
    ("getControllerMetaData -a {broker}", CONTROLLER),
    ("getControllerConfig -a {broker}", CONTROLLER),
    ("updateControllerConfig -a {broker} -k x -v y", CONTROLLER),
    ("electMaster -a {broker} -b 0 -bn {name} -c {cluster}", CONTROLLER),
    ("cleanBrokerMetadata -a {broker} -bn {name} -c {cluster} -l", CONTROLLER),
    ("getColdDataFlowCtrInfo -b {broker}", COLD),
    ("updateColdDataFlowCtrGroupConfig -b {broker} -g {group} -v 10", COLD),
    ("removeColdDataFlowCtrGroupConfig -b {broker} -g {group}", COLD),
    ("setCommitLogReadAheadMode -b {broker} -m 0", "there is no commit log"),
    ("rocksDBConfigToJson -t topics -c {cluster} -n {namesrv}", ROCKSDB),
    ("checkRocksdbCqWriteProgress -c {cluster} -n {namesrv}", ROCKSDB),
    ("exportPopRecord -c {cluster}", "there is nothing to roll back"),
    ("updateStaticTopic -b {name} -t Static -qn 2", "static topics are not supported"),
    ("remappingStaticTopic -b {name} -t Static", "No topic route to do the remapping"),
    # These ask no broker: they read files of the machine that they run on
    ("dumpCompactionLog -f {exports}/none", "not exist"),
    ("exportMetadataInRocksDB -p {exports}/none -t topics", "RocksDB path is invalid"),
)

ENDLESS = _works(("startMonitoring", ""), ("clusterRT -a 1 -i 1 -s 10", "{cluster}"))
"""mqadmin prints for ever; what counts is what it printed until it was cut off."""

LAST = _works(
    ("deleteKvConfig -s NS -k a", "success"),
    ("updateOrderConf -t {topic} -m get", "{name}:2"),
    ("deleteSubGroup -g GID_new -c {cluster} -r true", "success"),
    ("deleteTopic -t New -c {cluster}", "success"),
    ("wipeWritePerm -b {name}", "wipe write perm of broker[{name}]"),
)

AFTER_THE_WIPE = _works(
    ("updateOrderConf -t {topic} -m delete", "delete orderConf success"),
    ("addWritePerm -b {name}", "add write perm of broker[{name}]"),
)

ALL = (*FIRST, *RELAYED, *ENDLESS, *MAIN, *LAST, *AFTER_THE_WIPE)

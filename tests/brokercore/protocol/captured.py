"""Frames captured between Java clients and Apache RocketMQ 5.3.3, trimmed."""

from __future__ import annotations

ROUTE_BINARY_HEADER = bytes.fromhex(
    "0069 00 01df 00000000 00000000 00000000 00000013 0005 746f706963 00000008 546f70696353716c"
)
"""GET_ROUTEINFO_BY_TOPIC(TopicSql) in the ROCKETMQ header form."""

SEND_REQUEST_HEADER = (
    b'{"code":310,"extFields":{"a":"PG_test","b":"TopicA","c":"TBW102","d":"4","e":"1","f":"0","g":"1795244543330",'
    b'"h":"0","i":"KEYS\\u0001key1 key2\\u0002foo\\u0001bar\\u0002UNIQ_KEY\\u0001FD000000\\u0002WAIT\\u0001true\\u0002'
    b'TAGS\\u0001tagA\\u0002","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":4,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)

ONS_REQUEST_HEADER = (
    b'{"code":38,"extFields":{"consumerGroup":"GID_ons_c","AccessKey":"AKtest","OnsChannel":"ALIYUN",'
    b'"Signature":"tY8NPrSi6/+a/Iib6cx/mbF/9dw="},"flag":0,"language":"JAVA",'
    b'"namespaceId":"MQ_INST_1234567890_BXabcdef","opaque":8,"version":300}'
)

STORED_FRAME = (
    bytes.fromhex(
        "00000089 daa320a7 6f1f8386 00000003 00000000 0000000000000000 0000000000000111 00000000 000001a1fce9ce16"
        "7f000001 0000cf32 000001a1fce9ce2a 7f000002 000051af 00000000 0000000000000000"
        "00000005 6173796e63 06 546f70696341 0023"
    )
    + b"MSG_REGION\x01DefaultRegion\x02TAGS\x01tagC\x02"
)
"""A message of a pull answer; its property string is shortened."""

TOPIC_STATS = (
    b'{"offsetTable":{{"brokerName":"broker-a","queueId":2,"topic":"TopicSql"}:'
    b'{"lastUpdateTimestamp":1795246360362,"maxOffset":5,"minOffset":0}},"topicPutTps":0.1}'
)

CONSUME_STATS = (
    b'{"consumeTps":0.8,"offsetTable":{{"brokerName":"broker-a","queueId":3,"topic":"TopicA"}:'
    b'{"brokerOffset":7,"consumerOffset":7,"lastTimestamp":1795244588199,"pullOffset":7}}}'
)

RESET_TABLE = b'{"offsetTable":{{"brokerName":"broker-a","queueId":3,"topic":"TopicA"}:7}}'

CLUSTER_INFO = (
    b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.2:20911"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
)

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.2:20911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
    b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":7,'
    b'"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
)

HEARTBEAT = (
    b'{"clientID":"192.0.2.2@11659#1067717744406","consumerDataSet":[{"consumeFromWhere":'
    b'"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"CG_push","messageModel":"CLUSTERING",'
    b'"subscriptionDataSet":[{"classFilterMode":false,"codeSet":[3552231,3552256,-791160896],"expressionType":"TAG",'
    b'"subString":"tagA || tagZ || tagBatch","subVersion":1795244570524,"tagsSet":["tagA","tagZ","tagBatch"],'
    b'"topic":"TopicA"}],"unitMode":false}],"heartbeatFingerprint":0,'
    b'"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}'
)

"""Every operation with what each of the cast is answered. A new operation needs a row here.

`.` passes the permission check (the answer may still be that there is no message, say), `-` is refused for lack of a
permission, `?` does not exist for the caller, `!` is not valid signature. The columns: without a known key, the
administrator of another account, a RAM user without rights, a publisher, a subscriber, one who may look, one who may do
everything with messages, the administrator of the account. The platform's administrator has no keys.
"""

from __future__ import annotations

MATRIX: dict[str, str] = {
    #                                          anonymous
    #                                          | charlie
    #                                          | | nora
    #                                          | | | publisher
    #                                          | | | | subscriber
    #                                          | | | | | rita, who may look
    #                                          | | | | | | bob, who may do everything
    #                                          | | | | | | | alice
    "region/list":                            "! . . . . . . .",
    "cluster/list":                           "! . . . . . . .",
    "instance/list":                          "! . - . . . . .",
    "instance/baseInfo":                      "! ? - . . . . .",
    "instance/create":                        "! . - - - - . .",
    "instance/update":                        "! ? - - - - . .",
    "instance/delete":                        "! ? - - - - . .",
    "vpcTunnel/tunnelSwitch":                 "! ? - - - - - .",
    "topic/create":                           "! ? - - - - . .",
    "topic/delete":                           "! ? - - - - . .",
    "topic/get":                              "! ? - . . . . .",
    "topic/listInPage":                       "! ? - . . . . .",
    "topic/listNames":                        "! ? - . . . . .",
    "topic/subDetail":                        "! ? - . . . . .",
    "topic/update":                           "! ? - - - - . .",
    "group/create":                           "! ? - - . - . .",
    "group/delete":                           "! ? - - - - . .",
    "group/list":                             "! ? - . . . . .",
    "group/subDetail":                        "! ? - - . . . .",
    "group/consumerUpdate":                   "! ? - - - - . .",
    "consumer/accumulate":                    "! ? - - . . . .",
    "consumer/status":                        "! ? - - . . . .",
    "consumer/getConnection":                 "! ? - - . . . .",
    "consumer/timespan":                      "! ? - - . . . .",
    "consumer/resetoffset":                   "! ? - - - - . .",
    "message/trace":                          "! ? - - - . . .",
    "message/getById":                        "! ? - - - . . .",
    "message/getByKey":                       "! ? - - - . . .",
    "message/getByPagedTopic":                "! ? - - - . . .",
    "trend/topicInputTps":                    "! ? - - - . . .",
    "trend/groupOutputTps":                   "! ? - - - . . .",
    "empower/create":                         "! O - - - - . .",
    "empower/createBySub":                    "! O - - - - . .",
    "empower/delete":                         "! O - - - - . .",
    "empower/list":                           "! O - . . . . .",
    "message/getByIdInDLQ":                   "! ? - - - . . .",
    "message/getByPagedDLQ":                  "! ? - - - . . .",
    "message/resendByIdInDLQ":                "! ? - - - - . .",
}  # fmt: skip
SIGNS = {
    "!": "AUTH_SIGNATURE_INVALID",
    "-": "AUTH_PERMISSION_DENIED",
    "?": "BIZ_INSTANCE_NOT_FOUND",
    "O": "EMPOWER_OWNER_CHECK_ERROR",
}

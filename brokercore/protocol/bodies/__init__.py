"""The JSON bodies both sides read and write, each a dataclass with to_dict/from_dict or to_json/from_json.

`from_json` reads fastjson's dialect too, and raises LenientJsonError for what is no JSON object.
"""

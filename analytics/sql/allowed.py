"""What a statement of a tenant may be made of, in the names of Spark's parsed plan. What is not listed is refused."""

_CATALYST = "org.apache.spark.sql.catalyst."

#: Every expression class the parser builds by itself; functions come as UnresolvedFunction and are judged by name.
EXPRESSIONS = _CATALYST + "expressions."

_LOGICAL = """
    Aggregate CTERelationRef Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit
    LocalRelation Offset OneRowRelation ParameterizedQuery Pivot Project Sample Sort SubqueryAlias Tail Transpose Union
    UnresolvedHint UnresolvedSubqueryColumnAliases UnresolvedWith Unpivot WithWindowDefinition
"""
_ANALYSIS = """
    MultiAlias NamedParameter PosParameter ResolvedInlineTable UnresolvedAlias UnresolvedAttribute
    UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator UnresolvedHaving UnresolvedInlineTable
    UnresolvedOrdinal UnresolvedQualify UnresolvedRelation UnresolvedStar UnresolvedStarExceptOrReplace
    UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableValuedFunction UnresolvedWindowExpression
"""
PLAN_NODES = frozenset(
    [_CATALYST + "plans.logical." + name for name in _LOGICAL.split()]
    + [_CATALYST + "analysis." + name for name in _ANALYSIS.split()]
)

#: Functions that call Java, read files (a schema of XML or a descriptor), tell where files lie, or who runs the JVM.
_REFUSED_FUNCTIONS = """
    reflect java_method try_reflect
    input_file_name input_file_block_start input_file_block_length
    from_xml schema_of_xml from_avro to_avro schema_of_avro from_protobuf to_protobuf
    current_user user session_user
    python_worker_logs
"""
REFUSED_FUNCTIONS = frozenset(_REFUSED_FUNCTIONS.split())

_TABLE_FUNCTIONS = """
    range explode explode_outer posexplode posexplode_outer inline inline_outer json_tuple stack
    variant_explode variant_explode_outer collations sql_keywords
"""
TABLE_FUNCTIONS = frozenset(_TABLE_FUNCTIONS.split())

#: The hidden column of file tables: it tells the paths of the lake.
REFUSED_COLUMN = "_metadata"

#: What a refused plan node is in the words of SQL; other nodes are told by the first word of the statement.
NODE_WORDS = {
    "ScriptTransformation": "TRANSFORM … USING, which runs a program",
    "RelationTimeTravel": "VERSION AS OF and TIMESTAMP AS OF",
    "NamedStreamingRelation": "STREAM",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER(…)",
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER(…)",
    "UnresolvedExecuteImmediate": "EXECUTE IMMEDIATE",
    "CompoundBody": "BEGIN … END",
    "InsertIntoDir": "INSERT OVERWRITE DIRECTORY",
    "InsertIntoStatement": "INSERT",
    "UnresolvedInsertTarget": "INSERT",
}

"""What a statement of a tenant may be made of, in the names of Spark's parsed plan. What is not listed is refused."""

from analytics.sql import functions

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

#: Functions that an editor does not offer; why, and what is allowed instead, is in `functions`.
REFUSED_FUNCTIONS = frozenset(functions.REFUSED)

#: The hidden column of file tables: it tells the paths of the lake.
REFUSED_COLUMN = "_metadata"
#: Functions that Spark also takes without parentheses, where no column has the name; USER is too good a column's name,
#: and the session tells a name of its own for it (`session`).
REFUSED_NAMES = frozenset({"current_user", "session_user"})

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
    "InsertIntoStatement": "INSERT behind other words",
    "UnresolvedInsertTarget": "INSERT behind other words",
}

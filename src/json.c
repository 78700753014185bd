/*-------------------------------------------------------------------------
 *
 * json.c
 *	  Small helpers to read JSON arguments.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/jsonapi.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "compat.h"
#include "pg_sqs.h"
#include "attribute.h"

/* Reads JSON text; NULL where it is none. */
Jsonb *
json_parse(const char *input)
{
	JsonLexContext *lex;

	/* jsonb_in() would raise an error of its own */
	lex = makeJsonLexContextCstringLen(NULL, unconstify(char *, input),
									   strlen(input), GetDatabaseEncoding(),
									   true);
	if (pg_parse_json(lex, &nullSemAction) != JSON_SUCCESS)
		return NULL;
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
											  CStringGetDatum(input)));
}

/* The text of a string, number (5.0 is 5) or boolean; NULL for the rest. */
char *
json_scalar(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvNumeric:
			return numeric_normalize(value->val.numeric);
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		default:
			return NULL;
	}
}

/* Finds a member of an object; NULL if it has none of that name. */
JsonbValue *
json_member(Jsonb *object, const char *key, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(&object->root, key, strlen(key), value);
}

/* The text of a value: of an object or array its JSON. */
char *
json_text(const JsonbValue *value)
{
	if (value->type == jbvNull)
		return pstrdup("null");
	if (value->type == jbvBinary)
		return JsonbToCString(NULL, value->val.binary.data,
							  value->val.binary.len);
	return json_scalar(value);
}

/*-------------------------------------------------------------------------
 *
 * message_attribute.c
 *	  The attributes that a sender gives a message.
 *
 * They come in the AWS form or the short one, and leave in the AWS form, which
 * is what a queue stores and a receive returns.  One pass over the input fills
 * an array of at most ten; checks, size, MD5 and canonical form all work on
 * that.  Input that is canonical already is returned as it is.  The grammar of
 * names, types and values is in attribute_syntax.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "pg_sqs.h"

#define MAX_ATTRIBUTES 10
#define MAX_TYPE 256			/* characters */
#define TRACE_HEADER "AWSTraceHeader"

typedef struct Attribute
{
	const char *origin;			/* for messages: "user" or "system" */
	JsonbValue	name;			/* these three as the database has them */
	JsonbValue	type;
	JsonbValue	value;
	AttributeBase base;
	Bytes		hashed_name;	/* and as they count and are hashed: UTF-8, */
	Bytes		hashed_type;
	Bytes		hashed_value;	/* but a binary value decoded */
} Attribute;

static bool parse_attributes(Jsonb *input, Attribute *attributes, bool *as_is,
							 Failure *failure);
static bool parse_attribute(Attribute *attribute, JsonbValue *value,
							bool *as_is, Failure *failure);
static bool parse_members(Attribute *attribute, JsonbContainer *object,
						  bool *as_is, Failure *failure);
static bool choose_value(Attribute *attribute, JsonbValue *string,
						 JsonbValue *binary, Failure *failure);
static bool check_name(Attribute *attribute, Failure *failure);
static bool check_type(Attribute *attribute, Failure *failure);
static bool check_value(Attribute *attribute, Failure *failure);
static bool check_string(const Attribute *attribute, const char *part,
						 Bytes string, Failure *failure);

/* A string of a jsonb, to be shown in a message. */
static const char *
shown(const JsonbValue *string)
{
	return excerpt(string->val.string.val, string->val.string.len);
}

/* Fails for what is wrong with an attribute. */
static bool
attribute_fail(Failure *failure, const Attribute *attribute,
			   const char *problem)
{
	return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
					"Message (%s) attribute '%s' %s", attribute->origin,
					shown(&attribute->name), problem);
}

/* A string of a jsonb in UTF-8. */
static Bytes
utf8_bytes(const JsonbValue *string)
{
	Bytes		bytes;

	bytes.length = string->val.string.len;
	bytes.data = utf8_form(string->val.string.val, &bytes.length);
	return bytes;
}

/* A constant as a string of a jsonb. */
static JsonbValue
make_string(const char *string, int length)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = unconstify(char *, string);
	value.val.string.len = length;
	return value;
}

/* Whether a string of a jsonb is this one. */
static bool
is_string(const JsonbValue *value, const char *string)
{
	return value->val.string.len == strlen(string) &&
		memcmp(value->val.string.val, string, value->val.string.len) == 0;
}

/* Whether a parameter was left out: NULL, JSON's null or no attribute in it. */
static bool
is_absent(Jsonb *input)
{
	JsonbValue	scalar;

	if (input == NULL)
		return true;
	if (JB_ROOT_IS_SCALAR(input))
		return JsonbExtractScalar(&input->root, &scalar) &&
			scalar.type == jbvNull;
	return JB_ROOT_IS_OBJECT(input) && JB_ROOT_COUNT(input) == 0;
}

/* Checks that a parameter is a JSON object. */
static bool
check_object(const char *parameter, Jsonb *input, Failure *failure)
{
	if (JB_ROOT_IS_OBJECT(input))
		return true;
	return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
					"Value for parameter %s is invalid. Reason: Must be a JSON object.",
					parameter);
}

/* Order of the names in the digest: that of their bytes. */
static int
compare_names(const void *left, const void *right)
{
	Bytes		a = ((const Attribute *) left)->hashed_name;
	Bytes		b = ((const Attribute *) right)->hashed_name;
	int			order = memcmp(a.data, b.data, Min(a.length, b.length));

	return order != 0 ? order : a.length - b.length;
}

/* Adds a string with its length before it to what is hashed. */
static char *
put_bytes(char *to, Bytes bytes)
{
	uint32		length = pg_hton32(bytes.length);

	memcpy(to, &length, sizeof(length));
	memcpy(to + sizeof(length), bytes.data, bytes.length);
	return to + sizeof(length) + bytes.length;
}

/* MD5OfMessageAttributes of attributes in order, their size being known. */
static text *
hash_attributes(const Attribute *attributes, int n, int size)
{
	char	   *hashed = palloc(size + n * (3 * sizeof(uint32) + 1));
	char	   *to = hashed;

	for (int i = 0; i < n; i++)
	{
		to = put_bytes(to, attributes[i].hashed_name);
		to = put_bytes(to, attributes[i].hashed_type);
		*to++ = attributes[i].base == ATTRIBUTE_BINARY ? 2 : 1;
		to = put_bytes(to, attributes[i].hashed_value);
	}
	return md5_hex(hashed, to - hashed);
}

/* The AWS form of some attributes. */
static Jsonb *
build_canonical(Attribute *attributes, int n)
{
	JsonbParseState *state = NULL;
	JsonbValue	data_type = make_string("DataType", 8);
	JsonbValue	string_value = make_string("StringValue", 11);
	JsonbValue	binary_value = make_string("BinaryValue", 11);

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < n; i++)
	{
		Attribute  *attribute = &attributes[i];

		pushJsonbValue(&state, WJB_KEY, &attribute->name);
		pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
		pushJsonbValue(&state, WJB_KEY, &data_type);
		pushJsonbValue(&state, WJB_VALUE, &attribute->type);
		pushJsonbValue(&state, WJB_KEY,
					   attribute->base == ATTRIBUTE_BINARY ? &binary_value : &string_value);
		pushJsonbValue(&state, WJB_VALUE, &attribute->value);
		pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* Checks the message_attributes of a send; NULL and {} mean none. */
bool
message_attributes_parse(Jsonb *input, MessageAttributes *result,
						 Failure *failure)
{
	Attribute	attributes[MAX_ATTRIBUTES];
	bool		as_is = true;
	int			n;

	memset(result, 0, sizeof(*result));
	if (is_absent(input))
		return true;
	if (!check_object("MessageAttributes", input, failure))
		return false;
	n = JB_ROOT_COUNT(input);
	if (n > MAX_ATTRIBUTES)
		return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
						"Number of message attributes [%d] exceeds the allowed maximum [%d].",
						n, MAX_ATTRIBUTES);
	if (!parse_attributes(input, attributes, &as_is, failure))
		return false;

	for (int i = 0; i < n; i++)
		result->size += attributes[i].hashed_name.length +
			attributes[i].hashed_type.length +
			attributes[i].hashed_value.length;
	qsort(attributes, n, sizeof(Attribute), compare_names);
	result->md5 = hash_attributes(attributes, n, result->size);
	result->canonical = as_is ? input : build_canonical(attributes, n);
	return true;
}

PG_FUNCTION_INFO_V1(sqs_md5_of_message_attributes);

/* sqs_md5_of_message_attributes: the digest that a send of them returns. */
Datum
sqs_md5_of_message_attributes(PG_FUNCTION_ARGS)
{
	MessageAttributes attributes;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	message_attributes_parse(PG_GETARG_JSONB_P(0), &attributes, NULL);
	if (attributes.md5 == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(attributes.md5);
}

/* Checks the MessageSystemAttributes of a batch entry. */
bool
message_system_attributes_parse(Jsonb *input, text **aws_trace_header,
								Failure *failure)
{
	Attribute	attribute = {.origin = "system"};
	JsonbIterator *it;
	JsonbValue	value;
	bool		as_is = true;

	*aws_trace_header = NULL;
	if (is_absent(input))
		return true;
	if (!check_object("MessageSystemAttributes", input, failure))
		return false;

	it = JsonbIteratorInit(&input->root);
	JsonbIteratorNext(&it, &value, true);
	while (JsonbIteratorNext(&it, &attribute.name, true) == WJB_KEY)
	{
		if (!is_string(&attribute.name, TRACE_HEADER))
			return attribute_fail(failure, &attribute,
								  "is invalid, the only one supported is '" TRACE_HEADER "'.");
		JsonbIteratorNext(&it, &value, true);
		if (!parse_attribute(&attribute, &value, &as_is, failure))
			return false;
		if (!is_string(&attribute.type, attribute_base_names[ATTRIBUTE_STRING]))
			return attribute_fail(failure, &attribute,
								  "must be of type 'String'.");
		*aws_trace_header =
			cstring_to_text_with_len(attribute.value.val.string.val,
									 attribute.value.val.string.len);
	}
	return true;
}

/* Checks the aws_trace_header of a send. */
bool
check_trace_header(text *value, Failure *failure)
{
	Attribute	attribute = {.origin = "system"};

	attribute.name = make_string(TRACE_HEADER, strlen(TRACE_HEADER));
	attribute.base = ATTRIBUTE_STRING;
	attribute.value = make_string(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));
	return check_value(&attribute, failure);
}

/* Fills the array with the attributes of an object. */
static bool
parse_attributes(Jsonb *input, Attribute *attributes, bool *as_is,
				 Failure *failure)
{
	JsonbIterator *it = JsonbIteratorInit(&input->root);
	JsonbValue	key;
	JsonbValue	value;

	JsonbIteratorNext(&it, &value, true);
	while (JsonbIteratorNext(&it, &key, true) == WJB_KEY)
	{
		JsonbIteratorNext(&it, &value, true);
		attributes->origin = "user";
		attributes->name = key;
		if (!check_name(attributes, failure) ||
			!parse_attribute(attributes, &value, as_is, failure))
			return false;
		attributes++;
	}
	return true;
}

/* Takes type and value of an attribute out of either form. */
static bool
parse_attribute(Attribute *attribute, JsonbValue *value, bool *as_is,
				Failure *failure)
{
	if (value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data))
		return parse_members(attribute, value->val.binary.data, as_is, failure);

	*as_is = false;
	if (value->type == jbvString)
	{
		attribute->base = ATTRIBUTE_STRING;
		attribute->value = *value;
	}
	else if (value->type == jbvNumeric)
	{
		char	   *number;

		number = DatumGetCString(DirectFunctionCall1(numeric_out,
													 NumericGetDatum(value->val.numeric)));
		attribute->base = ATTRIBUTE_NUMBER;
		attribute->value = make_string(number, strlen(number));
	}
	else
		return attribute_fail(failure, attribute,
							  "must be a JSON object, string or number.");
	attribute->type = make_string(attribute_base_names[attribute->base], 6);
	attribute->hashed_type = utf8_bytes(&attribute->type);
	return check_value(attribute, failure);
}

/* Takes type and value out of the members of the AWS form. */
static bool
parse_members(Attribute *attribute, JsonbContainer *object, bool *as_is,
			  Failure *failure)
{
	JsonbIterator *it = JsonbIteratorInit(object);
	JsonbValue	key;
	JsonbValue	member;
	JsonbValue	string = {.type = jbvNull};
	JsonbValue	binary = {.type = jbvNull};

	attribute->type.type = jbvNull;
	JsonbIteratorNext(&it, &member, true);
	while (JsonbIteratorNext(&it, &key, true) == WJB_KEY)
	{
		JsonbIteratorNext(&it, &member, true);
		if (is_string(&key, "DataType"))
			attribute->type = member;
		else if (is_string(&key, "StringValue"))
			string = member;
		else if (is_string(&key, "BinaryValue"))
			binary = member;
		else if (!is_string(&key, "StringListValues") &&
				 !is_string(&key, "BinaryListValues"))
			return attribute_fail(failure, attribute,
								  psprintf("has the unsupported member '%s'.",
										   shown(&key)));
		else if (member.type != jbvNull)
			return sqs_fail(failure, ERRCODE_SQS_UNSUPPORTED_OPERATION, NULL,
							"Message attribute list values in SendMessage operation are not supported.");
		if (member.type == jbvNull)
			*as_is = false;
	}
	return check_type(attribute, failure) &&
		choose_value(attribute, &string, &binary, failure) &&
		check_value(attribute, failure);
}

/* Takes the value from the member that the type demands. */
static bool
choose_value(Attribute *attribute, JsonbValue *string, JsonbValue *binary,
			 Failure *failure)
{
	bool		is_binary = attribute->base == ATTRIBUTE_BINARY;
	const char *field = is_binary ? "BinaryValue" : "StringValue";
	JsonbValue *other = is_binary ? string : binary;

	attribute->value = is_binary ? *binary : *string;
	if (other->type != jbvNull)
		return attribute_fail(failure, attribute,
							  psprintf("with type '%s' must use field '%s'.",
									   shown(&attribute->type), field));
	if (attribute->value.type == jbvNull)
		attribute->value = make_string("", 0);
	if (attribute->value.type != jbvString)
		return attribute_fail(failure, attribute,
							  psprintf("must have a string as its %s.", field));
	return true;
}

/* Checks the name of an attribute. */
static bool
check_name(Attribute *attribute, Failure *failure)
{
	const char *problem;

	attribute->hashed_name = utf8_bytes(&attribute->name);
	problem = attribute_name_problem(attribute->hashed_name);
	if (problem == NULL)
		return true;
	return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
					"The message attribute name '%s' is invalid. %s",
					shown(&attribute->name), problem);
}

/* Checks the DataType of an attribute. */
static bool
check_type(Attribute *attribute, Failure *failure)
{
	if (attribute->type.type == jbvNull)
		attribute->type = make_string("", 0);
	if (attribute->type.type != jbvString)
		return attribute_fail(failure, attribute,
							  "must have a string as its DataType.");
	attribute->hashed_type = utf8_bytes(&attribute->type);
	if (attribute->hashed_type.length == 0)
		return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
						"The message attribute '%s' must contain a non-empty message attribute type.",
						shown(&attribute->name));
	if (!attribute_base(attribute->hashed_type, &attribute->base))
		return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
						"The message attribute '%s' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.",
						shown(&attribute->name));
	if (count_characters(attribute->hashed_type) > MAX_TYPE)
		return attribute_fail(failure, attribute,
							  "must have a type of at most 256 characters.");
	return check_string(attribute, "type", attribute->hashed_type, failure);
}

/* Checks that a string has only the characters that a body may have. */
static bool
check_string(const Attribute *attribute, const char *part, Bytes string,
			 Failure *failure)
{
	uint32		offender;

	if (check_characters(string.data, string.length, &offender))
		return true;
	return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
					"Invalid binary character '#x%X' was found in the %s of message (%s) attribute '%s', the set of allowed characters is %s.",
					offender, part, attribute->origin,
					shown(&attribute->name), SQS_CHARACTERS);
}

/* Checks the value of an attribute by its type. */
static bool
check_value(Attribute *attribute, Failure *failure)
{
	if (attribute->value.val.string.len == 0)
		return attribute_fail(failure, attribute,
							  psprintf("must contain a non-empty value of type '%s'.",
									   attribute_base_names[attribute->base]));
	if (attribute->base == ATTRIBUTE_BINARY)
		return decode_base64(attribute->value.val.string.val,
							 attribute->value.val.string.len,
							 &attribute->hashed_value) ||
			attribute_fail(failure, attribute,
						   "must have base64 as its BinaryValue.");

	attribute->hashed_value = utf8_bytes(&attribute->value);
	if (!check_string(attribute, "value", attribute->hashed_value, failure))
		return false;
	if (attribute->base == ATTRIBUTE_NUMBER && !is_attribute_number(attribute->hashed_value))
		return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE,
						"A number has at most 38 digits of precision and is between 10^-128 and 10^126.",
						"Can't cast the value of message (%s) attribute '%s' to a number.",
						attribute->origin, shown(&attribute->name));
	return true;
}

/*-------------------------------------------------------------------------
 *
 * attribute_syntax.c
 *	  The grammar of a message attribute's name, type and value.
 *
 * All of it looks at bytes only, in UTF-8, and knows nothing of JSON.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/base64.h"
#include "mb/pg_wchar.h"

#include "compat.h"
#include "pg_sqs.h"

#define MAX_NAME 256			/* characters */
#define MAX_PRECISION 38		/* digits of a number, and its magnitudes: */
#define MIN_MAGNITUDE (-128)	/* 10^-128 is the least but 0 */
#define MAX_MAGNITUDE 126		/* 10^126 is the most */

const char *const attribute_base_names[] = {"String", "Number", "Binary"};

/* How many characters UTF-8 has. */
int
count_characters(Bytes utf8)
{
	int			n = 0;

	for (int i = 0; i < utf8.length; i++)
		n += ((unsigned char) utf8.data[i] & 0xC0) != 0x80;
	return n;
}

/*
 * Whether a character may be in a name.  Amazon SQS takes letters beyond ASCII
 * without saying which; here they are those that may start a name in XML.
 */
static bool
is_name_character(pg_wchar c)
{
	static const struct
	{
		pg_wchar	first;
		pg_wchar	last;
	}			letters[] =
	{
		{'-', '.'}, {'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'},
		{0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x2FF}, {0x370, 0x37D},
		{0x37F, 0x1FFF}, {0x200C, 0x200D}, {0x2070, 0x218F},
		{0x2C00, 0x2FEF}, {0x3001, 0xD7FF}, {0xF900, 0xFDCF},
		{0xFDF0, 0xFFFD}, {0x10000, 0xEFFFF}
	};

	for (int i = 0; i < lengthof(letters); i++)
		if (c <= letters[i].last)
			return c >= letters[i].first;
	return false;
}

/* Whether UTF-8 has only characters that may be in a name. */
static bool
has_name_characters(Bytes name)
{
	const unsigned char *at = (const unsigned char *) name.data;
	const unsigned char *end = at + name.length;
	uint32		offender;

	if (!check_characters(name.data, name.length, &offender))
		return false;
	for (; at < end; at += pg_utf_mblen(at))
		if (!is_name_character(utf8_to_unicode(at)))
			return false;
	return true;
}

/* Whether a name starts with a prefix, in whatever case. */
static bool
has_prefix(Bytes name, const char *prefix)
{
	int			length = strlen(prefix);

	return name.length >= length &&
		pg_strncasecmp(name.data, prefix, length) == 0;
}

/* Whether a name has a period with no other character before or after it. */
static bool
has_stray_period(Bytes name)
{
	bool		after_period = true;

	for (int i = 0; i < name.length; i++)
	{
		if (name.data[i] == '.' && after_period)
			return true;
		after_period = name.data[i] == '.';
	}
	return after_period;
}

/* What is wrong with the name of an attribute, or NULL. */
const char *
attribute_name_problem(Bytes name)
{
	int			n = count_characters(name);

	if (n < 1 || n > MAX_NAME)
		return "It must be 1 to 256 characters long.";
	if (!has_name_characters(name))
		return "It can only include letters, digits, underscores, hyphens and periods.";
	if (has_prefix(name, "AWS.") || has_prefix(name, "Amazon."))
		return "It must not start with AWS. or Amazon.";
	if (has_stray_period(name))
		return "It must not start or end with a period, nor have two in a row.";
	return NULL;
}

/* Finds what a type is before its label; false if it is none of the three. */
bool
attribute_base(Bytes type, AttributeBase *base)
{
	const char *period = memchr(type.data, '.', type.length);
	int			length = period ? period - type.data : type.length;

	for (int i = ATTRIBUTE_STRING; i <= ATTRIBUTE_BINARY; i++)
	{
		if (length == strlen(attribute_base_names[i]) &&
			memcmp(type.data, attribute_base_names[i], length) == 0)
		{
			*base = (AttributeBase) i;
			return true;
		}
	}
	return false;
}

/*
 * The bytes that base64 stands for; false unless it is what encoding them
 * gives, so that each value is stored in one form only.
 */
bool
decode_base64(const char *string, int length, Bytes *bytes)
{
	int			room = pg_b64_dec_len(length);
	char	   *decoded = palloc(room + 1);
	char	   *encoded;

	bytes->data = decoded;
	bytes->length = pg_b64_decode(string, length, (uint8 *) decoded, room);
	if (bytes->length < 0)
		return false;
	room = pg_b64_enc_len(bytes->length);
	encoded = palloc(room + 1);
	return pg_b64_encode((uint8 *) decoded, bytes->length, encoded,
						 room) == length &&
		memcmp(encoded, string, length) == 0;
}

/* The digits of a number: where the first and the last one other than 0 are. */
typedef struct Digits
{
	int			count;
	int			before_point;
	int			first;			/* -1 where there is none */
	int			last;
	char		leading;		/* the digit that is first */
} Digits;

/* Reads digits with at most one point among them; returns what follows. */
static const char *
scan_digits(const char *at, const char *end, Digits *digits)
{
	bool		point = false;

	digits->count = digits->before_point = 0;
	digits->first = digits->last = -1;
	digits->leading = '0';
	for (; at < end; at++)
	{
		if (*at == '.' && !point)
			point = true;
		else if (*at < '0' || *at > '9')
			break;
		else
		{
			if (*at != '0')
				digits->last = digits->count;
			if (*at != '0' && digits->first < 0)
			{
				digits->first = digits->count;
				digits->leading = *at;
			}
			digits->count++;
			digits->before_point += !point;
		}
	}
	return at;
}

/* Reads an exponent, which may be missing; returns what follows or NULL. */
static const char *
scan_exponent(const char *at, const char *end, int *exponent)
{
	bool		negative;
	const char *start;

	*exponent = 0;
	if (at == end || (*at != 'e' && *at != 'E'))
		return at;
	at++;
	negative = at < end && *at == '-';
	if (at < end && (*at == '-' || *at == '+'))
		at++;
	for (start = at; at < end && *at >= '0' && *at <= '9'; at++)
		*exponent = Min(*exponent * 10 + *at - '0', 10000000);
	if (negative)
		*exponent = -*exponent;
	return at > start ? at : NULL;
}

/* Whether a string is a number that an attribute can hold. */
bool
is_attribute_number(Bytes string)
{
	const char *at = string.data;
	const char *end = at + string.length;
	Digits		digits;
	int			exponent;
	int			magnitude;
	int			precision;

	if (at < end && (*at == '-' || *at == '+'))
		at++;
	at = scan_digits(at, end, &digits);
	if (digits.count == 0 || scan_exponent(at, end, &exponent) != end)
		return false;
	if (digits.first < 0)
		return true;			/* zero */

	precision = digits.last - digits.first + 1;
	magnitude = digits.before_point - 1 - digits.first + exponent;
	return precision <= MAX_PRECISION && magnitude >= MIN_MAGNITUDE &&
		(magnitude < MAX_MAGNITUDE ||
		 (magnitude == MAX_MAGNITUDE && precision == 1 &&
		  digits.leading == '1'));
}

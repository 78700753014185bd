/*-------------------------------------------------------------------------
 *
 * body.c
 *	  What a message's body and the ids given with it may hold.
 *
 * Amazon SQS takes the characters of XML 1.0, and counts and hashes UTF-8.
 * Every send passes here, so a body is looked at eight bytes at a time, and a
 * database in UTF-8 pays for no conversion.  A database in SQL_ASCII has bytes
 * of unknown meaning: they are taken for UTF-8 and refused where they are not.
 *
 * MD5 is the server's: on a body of 50 bytes one of our own saved 0.4 us,
 * which is not worth the code.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "pg_sqs.h"

#define MAX_IDENTIFIER 128		/* characters, all of them ASCII */
#define MAX_EXCERPT 1024		/* bytes of a value that a message repeats */
#define MD5_HEX_LENGTH 32

/* a byte in each of eight places */
#define EIGHT_TIMES(byte) (UINT64CONST(0x0101010101010101) * (byte))

/* A string of the database in UTF-8, the same pointer where it is already. */
const char *
utf8_form(const char *string, int *length)
{
	int			encoding = GetDatabaseEncoding();
	char	   *utf8;

	if (encoding == PG_UTF8 || encoding == PG_SQL_ASCII || *length == 0)
		return string;
	utf8 = pg_server_to_any(string, *length, PG_UTF8);
	if (utf8 != string)
		*length = strlen(utf8);
	return utf8;
}

/* Whether one of eight bytes may belong to a character that is not allowed. */
static inline bool
is_suspect(const unsigned char *bytes)
{
	uint64		word;
	uint64		control;
	uint64		lead;

	memcpy(&word, bytes, sizeof(word));

	/* the known tests for "a byte below n" and "a zero byte" in a word */
	control = (word - EIGHT_TIMES(0x20)) & ~word;
	word ^= EIGHT_TIMES(0xEF);
	lead = (word - EIGHT_TIMES(0x01)) & ~word;
	return ((control | lead) & EIGHT_TIMES(0x80)) != 0;
}

/* The character at a byte where it is one that is not allowed, or 0. */
static inline uint32
offender_at(const unsigned char *byte, const unsigned char *end)
{
	if (*byte < 0x20)
		return *byte == '\t' || *byte == '\n' || *byte == '\r' ? 0 : *byte;
	if (*byte == 0xEF && end - byte >= 3 && byte[1] == 0xBF && byte[2] >= 0xBE)
		return 0xFFC0 | (byte[2] & 0x3F);	/* U+FFFE and U+FFFF */
	return 0;
}

/* Whether UTF-8 has only the characters allowed; else tells the first other. */
bool
check_characters(const char *utf8, int length, uint32 *offender)
{
	const unsigned char *byte = (const unsigned char *) utf8;
	const unsigned char *end = byte + length;

	if (GetDatabaseEncoding() == PG_SQL_ASCII)
		end = byte + pg_encoding_verifymbstr(PG_UTF8, utf8, length);

	while (byte < end)
	{
		const unsigned char *stop = byte + Min(sizeof(uint64), end - byte);

		if (stop - byte == sizeof(uint64) && !is_suspect(byte))
			byte = stop;
		for (; byte < stop; byte++)
		{
			*offender = offender_at(byte, end);
			if (*offender != 0)
				return false;
		}
	}
	if (end == (const unsigned char *) utf8 + length)
		return true;
	*offender = *end;			/* not UTF-8 from here */
	return false;
}

/* Checks that a body, in UTF-8, is not empty and has only characters allowed. */
bool
check_body(const char *utf8, int length, Failure *failure)
{
	uint32		offender;

	if (length == 0)
		return fail_missing_parameter(failure, "MessageBody");
	if (!check_characters(utf8, length, &offender))
		return sqs_fail(failure, ERRCODE_SQS_INVALID_MESSAGE_CONTENTS, NULL,
						"Invalid binary character '#x%X' was found in the message body, the set of allowed characters is %s.",
						offender, SQS_CHARACTERS);
	return true;
}

/* Whether every byte is a letter, a digit or a punctuation mark of ASCII. */
static bool
is_printable(const char *value, int length)
{
	for (int i = 0; i < length; i++)
		if (value[i] <= ' ' || value[i] > '~')
			return false;
	return true;
}

/* Checks a group, deduplication or receive attempt id. */
bool
check_identifier(const char *parameter, const char *value, int length,
				 Failure *failure)
{
	if (length >= 1 && length <= MAX_IDENTIFIER && is_printable(value, length))
		return true;
	return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
					"Value %s for parameter %s is invalid. Reason: %s can only include alphanumeric and punctuation characters. 1 to %d in length.",
					excerpt(value, length), parameter, parameter,
					MAX_IDENTIFIER);
}


/* A value as an error message repeats it: whole, unless it is very long. */
const char *
excerpt(const char *value, int length)
{
	if (length <= MAX_EXCERPT)
		return pnstrdup(value, length);
	return psprintf("%.*s...", pg_mbcliplen(value, length, MAX_EXCERPT), value);
}

/* The same of a text. */
const char *
excerpt_text(const text *value)
{
	return excerpt(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));
}

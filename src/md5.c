/*-------------------------------------------------------------------------
 *
 * md5.c
 *	  MD5 (RFC 1321), which SQS uses as a checksum of bodies and attributes.
 *
 * Every send needs one.  The server's pg_md5_hash() goes through OpenSSL's
 * generic interface, which costs some five times what the digest of a short
 * body does, and refuses where OpenSSL is in FIPS mode, though nothing here
 * is about security.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"

#include "pg_sqs.h"

#define MD5_BLOCK 64

/* the integer part of 2^32 times abs(sin(i)), for i from 1 */
static const uint32 sines[MD5_BLOCK] = {
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee,
	0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
	0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be,
	0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
	0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa,
	0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
	0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
	0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
	0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c,
	0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
	0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05,
	0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
	0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039,
	0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
	0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
	0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391
};

/* how far each step of a round rotates */
static const int rotations[4][4] = {
	{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}
};

/* A number in the other byte order, where this machine's is big endian. */
static inline uint32
little_endian(uint32 value)
{
#ifdef WORDS_BIGENDIAN
	return pg_bswap32(value);
#else
	return value;
#endif
}

/* One step, with what its round makes of the state and which word it takes. */
static inline void
step(uint32 *state, uint32 mixed, uint32 word, int i)
{
	uint32		sum = state[0] + mixed + word + sines[i];

	state[0] = state[3];
	state[3] = state[2];
	state[2] = state[1];
	state[1] += pg_rotate_left32(sum, rotations[i / 16][i % 4]);
}

/* Digests one block. */
static void
digest_block(uint32 *digest, const uint8 *block)
{
	uint32		words[MD5_BLOCK / 4];
	uint32		s[4];
	int			i;

	memcpy(words, block, MD5_BLOCK);
	for (i = 0; i < MD5_BLOCK / 4; i++)
		words[i] = little_endian(words[i]);
	memcpy(s, digest, sizeof(s));
	for (i = 0; i < 16; i++)
		step(s, (s[1] & s[2]) | (~s[1] & s[3]), words[i], i);
	for (; i < 32; i++)
		step(s, (s[1] & s[3]) | (s[2] & ~s[3]), words[(5 * i + 1) % 16], i);
	for (; i < 48; i++)
		step(s, s[1] ^ s[2] ^ s[3], words[(3 * i + 5) % 16], i);
	for (; i < 64; i++)
		step(s, s[2] ^ (s[1] | ~s[3]), words[(7 * i) % 16], i);
	for (i = 0; i < 4; i++)
		digest[i] += s[i];
}

/* Digests the end of the data: what is left, a 1 bit, the length in bits. */
static void
digest_end(uint32 *digest, const uint8 *rest, size_t left, uint64 length)
{
	uint8		blocks[2 * MD5_BLOCK] = {0};
	size_t		size = left + 9 <= MD5_BLOCK ? MD5_BLOCK : 2 * MD5_BLOCK;

	memcpy(blocks, rest, left);
	blocks[left] = 0x80;
	for (int i = 0; i < 8; i++)
		blocks[size - 8 + i] = (uint8) (length * 8 >> (8 * i));
	for (size_t at = 0; at < size; at += MD5_BLOCK)
		digest_block(digest, blocks + at);
}

/* The MD5 of some bytes as 32 hexadecimal digits. */
text *
md5_hex(const void *data, int length)
{
	static const char digits[] = "0123456789abcdef";
	uint32		digest[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
	const uint8 *next = data;
	text	   *hex = palloc(VARHDRSZ + 32);
	int			left = length;

	for (; left >= MD5_BLOCK; left -= MD5_BLOCK, next += MD5_BLOCK)
		digest_block(digest, next);
	digest_end(digest, next, left, length);
	for (int i = 0; i < 16; i++)
	{
		uint8		byte = (uint8) (digest[i / 4] >> (8 * (i % 4)));

		VARDATA(hex)[2 * i] = digits[byte >> 4];
		VARDATA(hex)[2 * i + 1] = digits[byte & 15];
	}
	SET_VARSIZE(hex, VARHDRSZ + 32);
	return hex;
}

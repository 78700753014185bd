-- Databases in other encodings: sizes, digests and characters are those of UTF-8

SET client_min_messages = warning;
DROP DATABASE IF EXISTS regression_latin1;
DROP DATABASE IF EXISTS regression_ascii;
CREATE DATABASE regression_latin1 TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C';
CREATE DATABASE regression_ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C';
SELECT current_database() AS utf8 \gset

\c regression_latin1
SET client_encoding = 'UTF8';
CREATE EXTENSION pg_sqs;
CREATE FUNCTION error_of(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate || ' ' || sqlerrm;
END $$;
SELECT sqs_create_queue('latin1', '{"MaximumMessageSize": 1024}');
-- md5 of UTF-8 and the digest by it, as in a database in UTF-8
SELECT md5(convert_to('grüße', 'UTF8'));
SELECT md5_of_message_body, md5_of_message_attributes FROM sqs_send('latin1', 'grüße', message_attributes => '{"schlüssel": {"DataType": "String.größe", "StringValue": "ä"}}');
SELECT body, octet_length(body), message_attributes, sqs_md5_of_message_attributes(message_attributes) FROM sqs_receive('latin1');
-- 512 characters of two bytes each are the limit
SELECT md5_of_message_body FROM sqs_send('latin1', repeat('é', 512));
SELECT error_of($$SELECT sqs_send('latin1', repeat('é', 512) || 'a')$$);
SELECT error_of($$SELECT sqs_send('latin1', repeat('é', 500), message_attributes => '{"é": "abcdefgh12345678"}')$$);
SELECT error_of($$SELECT sqs_send('latin1', repeat('é', 500), message_attributes => '{"é": "abcdefgh123456789"}')$$);
SELECT error_of($$SELECT sqs_send('latin1', E'é\u0002')$$);
SELECT sqs_md5_of_message_attributes(jsonb_build_object(repeat('é', 256), 'v'));
SELECT error_of($$SELECT sqs_send('latin1', 'a', message_group_id => 'é')$$);
SELECT id, error_code, error_message FROM sqs_send_batch('latin1', '[{"Id": "a", "MessageBody": "ß"}, {"Id": "b", "MessageBody": "\u0002ß", "MessageGroupId": "ß"}]');

\c regression_ascii
SET client_encoding = 'SQL_ASCII';
CREATE EXTENSION pg_sqs;
CREATE FUNCTION error_of(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate || ' ' || sqlerrm;
END $$;
SELECT sqs_create_queue('ascii', '{"MaximumMessageSize": 1024}');
-- bytes that are UTF-8 are taken for it
SELECT md5_of_message_body, md5_of_message_attributes FROM sqs_send('ascii', 'grüße', message_attributes => '{"schlüssel": {"DataType": "String.größe", "StringValue": "ä"}}');
SELECT body = 'grüße' AS same, sqs_md5_of_message_attributes(message_attributes) FROM sqs_receive('ascii');
SELECT error_of($$SELECT sqs_send('ascii', repeat('é', 512) || 'a')$$);
-- others are refused
SELECT error_of($$SELECT sqs_send('ascii', E'gr\xfc\xdfe')$$);
SELECT error_of($$SELECT sqs_send('ascii', 'a long run of plain characters ' || E'\xc3')$$);
SELECT error_of($$SELECT sqs_send('ascii', E'\xed\xa0\x80')$$);
SELECT error_of($$SELECT sqs_send('ascii', E'\xef\xbf\xbf\xff')$$);
SELECT error_of($$SELECT sqs_send('ascii', 'a', message_attributes => jsonb_build_object('k', E'\xe9'))$$);
SELECT error_of($$SELECT sqs_send('ascii', 'a', message_attributes => jsonb_build_object('k', jsonb_build_object('DataType', E'String.\xe9', 'StringValue', 'v')))$$);
SELECT replace(message, E'\xe9', '?') FROM (SELECT error_message AS message FROM sqs_send_batch('ascii', jsonb_build_array(jsonb_build_object('Id', 'a', 'MessageBody', 'b', 'MessageAttributes', jsonb_build_object(E'k\xe9', 'v'))))) AS t;

\c :utf8
DROP DATABASE regression_latin1;
DROP DATABASE regression_ascii;

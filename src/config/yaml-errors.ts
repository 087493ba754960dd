import type { ErrorCode } from 'yaml';

/**
 * What to say about an error of the YAML parser. Its own messages are not used: some of them repeat a part of the text,
 * which may be a secret.
 */
const MESSAGES: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: 'a value that starts with * or & must be in quotes',
  BAD_DQ_ESCAPE: 'a backslash within double quotes starts an escape; use single quotes',
  BAD_INDENT: 'the indentation does not fit, or a closing bracket is missing',
  BAD_SCALAR_START: 'a value that starts with @, ` or % must be in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'the indentation does not fit, or a value that has ": " in it is not in quotes',
  DUPLICATE_KEY: 'this name was given before at the same place',
  MISSING_CHAR: 'a quote, comma or space is missing',
  MULTILINE_IMPLICIT_KEY: 'the indentation does not fit, or a colon is missing',
  MULTIPLE_DOCS: 'expected one document; remove the line "---"',
  RESOURCE_EXHAUSTION: 'expected sections and values, not such deep nesting',
  TAB_AS_INDENT: 'expected spaces for indentation, not tabs',
  TAG_RESOLVE_FAILED: 'a value that starts with ! must be in quotes',
  UNEXPECTED_TOKEN:
    'something here does not belong; a value that starts with * or & (such as a schedule or a pattern) must be in quotes',
};

/** One line for a person, without any of the text that was parsed. */
export function yamlMessage(code: ErrorCode): string {
  return `not valid YAML: ${MESSAGES[code] ?? code.toLowerCase().replaceAll('_', ' ')}`;
}

/** The text before a secret in a variable, a header or YAML. */
const NAME = /^(?:(?:export|set|setx)\s+)?[A-Za-z_]\w*=[^=\s]/;
const HEADER = /^(?:-H\s+)?["']?[A-Za-z][\w.-]*:\s+\S|^["']?(?:X-API-KEY|Authorization)\s*:/i;

/** Content that is obviously no bare key, the surest signs first, with the remedy. The messages hold nothing of it. */
const PASTED: ReadonlyArray<readonly [RegExp, string]> = [
  [
    /\0/,
    'is text in UTF-16, as Windows PowerShell writes it: save the file as UTF-8 without a byte order mark',
  ],
  [/^\uFEFF/, 'begins with a byte order mark: save the file as UTF-8 without one'],
  [
    /[\u00A0\u00AD\u2007\u200B-\u200F\u202F\u2060\uFEFF]/,
    'holds a non-breaking space or an invisible character, as copying from a page adds them: copy the key alone, or type it',
  ],
  [/^\s*-----BEGIN /, 'is a key or certificate in PEM: give the key that the service shows, one line'],
  [/^\s*(?:<!doctype|<html|<\?xml)/i, 'is a page in HTML or XML: give the key that the page shows, one line'],
  [
    /\$\{|^\s*["']?(?:\$\w+|\$\(.*\)|\{\{.*\}\}|%\w+%)["']?\s*$/,
    'is a variable that nothing replaced: give its value',
  ],
  [
    /^\s*["']?(?:<[^<>]*>|your[-_ ][\w -]*|change[-_]?me|([*•.…xX])\1{3,})["']?\s*$/i,
    'is a placeholder: give the key itself in its place',
  ],
  [/^\s*[{[]/, 'is JSON: give the value of the key alone, without braces and quotes'],
  [/^\s*#/, 'begins with a comment: give the key alone'],
  [/^\s*curl\s/, 'is a command: give the key alone'],
  [NAME, 'is a line NAME=value: give the value alone'],
  [HEADER, 'is a line "name: value", as of a header or of YAML: give the value alone'],
  [
    /^\s*["'`“”‘’«„]|["'`“”‘’»]\s*$/,
    "has quotes around it, which are kept (docker's --env-file keeps them): remove the quotes",
  ],
  [
    /^(?:Bearer|Token|Basic|ApiKey)[\s:]/i,
    'begins with the word of an Authorization header: give only what follows it',
  ],
  [
    /^\s*file:|^(?:~|\.\.?)?\/(?:etc|run|var|home|root|opt|mnt|media|secrets?|usr|tmp|srv|data)\/|^(?:~|\.\.?)\/|^[A-Za-z]:\\/,
    'is the path of a file: give it by the setting whose name ends with File',
  ],
  [/\\[nr]$/, 'ends with a backslash and a letter in place of a line break: remove both'],
  [/\S[\r\n]+\s*\S/, 'has several lines: give the key alone, one line'],
  [/[^\P{Cc}\r\n\t]/u, 'holds a control character: copy the key alone, or type it'],
  [/^\s|[ \t]$/, 'begins or ends with a space: remove it'],
  [/\S\s+\S/, 'has several words: give the value alone'],
];

/** Why a text is not a secret alone, as the end of a sentence about it; undefined if nothing is wrong. */
export function pastedProblem(text: string): string | undefined {
  return PASTED.find(([pattern]) => pattern.test(text))?.[1];
}

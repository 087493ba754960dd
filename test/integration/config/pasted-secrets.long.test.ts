import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { run } from '../../support/program.ts';
import { temporaryFolder } from '../../support/temporary.ts';

/** A secret in every text below; no message may contain it. */
const KEY = 'k3y-S3CRET';

/** Texts that people paste instead of a key, with the expected message. */
const PASTED: ReadonlyArray<readonly [string, RegExp]> = [
  [`"${KEY}"`, /has quotes around it.*remove the quotes/],
  [`'${KEY}'`, /has quotes around it/],
  [`“${KEY}”`, /has quotes around it/],
  [`${KEY}"`, /has quotes around it/],
  [`API_KEY=${KEY}`, /is a line NAME=value: give the value alone/],
  [`export WORKBOOK_MIRROR_SERVICE_API_KEY="${KEY}"`, /is a line NAME=value/],
  [`X-API-KEY: ${KEY}`, /is a line "name: value"/],
  [`Authorization: Bearer ${KEY}`, /is a line "name: value"/],
  [`apiKey: ${KEY}`, /is a line "name: value"/],
  [`-H 'X-API-KEY: ${KEY}'`, /is a line "name: value"/],
  [`Bearer ${KEY}`, /begins with the word of an Authorization header/],
  [`Token ${KEY}`, /begins with the word of an Authorization header/],
  [`https://workbooks.example.com/${KEY}`, /is an address/],
  [`{"apiKey": "${KEY}"}`, /is JSON/],
  [`{\n  "apiKey": "${KEY}"\n}`, /is JSON/],
  [`<!DOCTYPE html><p>${KEY}</p>`, /is a page in HTML/],
  [`-----BEGIN PRIVATE KEY-----\n${KEY}\n`, /is a key or certificate in PEM/],
  [`# of Anna\n${KEY}`, /begins with a comment/],
  [`curl -H 'X-API-KEY: ${KEY}' https://h`, /is a command/],
  [`Anna ${KEY}`, /has several words/],
  [`${KEY}\n${KEY} ${KEY}\n`, /has several lines|line 2 has several words/],
  [` ${KEY}`, /begins or ends with a space/],
  [`${KEY}\t`, /begins or ends with a space/],
  [`${KEY}\u001b[0m`, /holds a control character/],
  [`\uFEFF${KEY}`, /byte order mark/],
  [`${KEY}\u00A0`, /non-breaking space or an invisible character/],
  [`${KEY}\u200B`, /non-breaking space or an invisible character/],
  [`${KEY}é`, /letters outside of ASCII/],
  [`\${${KEY}}`, /is a variable that nothing replaced/],
  ['$WORKBOOK_KEY', /is a variable that nothing replaced/],
  ['{{ .Values.apiKey }}', /is a variable that nothing replaced/],
  ['%API_KEY%', /is a variable that nothing replaced/],
  ['<API_KEY>', /is a placeholder/],
  ['your-personal-api-key', /is a placeholder/],
  ['changeme', /is a placeholder/],
  ['********', /is a placeholder/],
  ['/run/secrets/api-key', /is the path of a file: give it by the setting whose name ends with File/],
  ['~/api-key', /is the path of a file/],
  ['C:\\keys\\api-key', /is the path of a file/],
  [`${KEY}\\n`, /ends with a backslash/],
  [Buffer.from(`\uFEFF${KEY}`, 'utf16le').toString(), /is text in UTF-16/],
];

const SETTINGS = ['service.apiKey', 'service.apiToken', 'http.token', 'http.pollToken'];

function variableOf(setting: string): string {
  return `WORKBOOK_MIRROR_${setting.replaceAll(/[A-Z]/g, '_$&').replaceAll('.', '_').toUpperCase()}`;
}

const GROUPS = Array.from({ length: Math.ceil(PASTED.length / SETTINGS.length) }, (_, index) =>
  PASTED.slice(index * SETTINGS.length, (index + 1) * SETTINGS.length),
);

it.each(GROUPS.map((group) => [group.map(([text]) => JSON.stringify(text)).join(', '), group] as const))(
  'what is obviously more than a key is named with its setting and source, and not shown: %s',
  async (_, group) => {
    const folder = await temporaryFolder();
    const inPlace: Record<string, string> = {};
    const inFiles: Record<string, string> = {};
    for (const [index, [text]] of group.entries()) {
      const variable = variableOf(SETTINGS[index] ?? '');
      if (!text.includes('\0')) inPlace[variable] = text;
      inFiles[`${variable}_FILE`] = join(folder, String(index));
      await writeFile(join(folder, String(index)), text);
    }
    const others = {
      WORKBOOK_MIRROR_SERVICE_BASE_URL: 'https://workbooks.example.com/api',
      WORKBOOK_MIRROR_DIRECTORY: join(folder, 'mirrored'),
    };
    for (const environment of [inPlace, inFiles]) {
      const { exitCode, stdout, stderr } = await run(['config', 'check'], { ...others, ...environment });
      expect(exitCode).toBe(2);
      expect(stdout + stderr).not.toContain(KEY);
      const lines = stderr.split('\n');
      for (const [index, [, message]] of group.entries()) {
        const variable = variableOf(SETTINGS[index] ?? '');
        const line = lines.find((each) => /\((.*?)\)/.exec(each)?.[1]?.replace(/_FILE$/, '') === variable);
        if (environment === inFiles || inPlace[variable] !== undefined) expect(line).toMatch(message);
      }
    }
  },
);

it('what may be a key passes', async () => {
  const folder = await temporaryFolder();
  const { exitCode, stderr } = await run(['config', 'check'], {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: 'https://workbooks.example.com/api',
    WORKBOOK_MIRROR_DIRECTORY: join(folder, 'mirrored'),
    WORKBOOK_MIRROR_SERVICE_API_KEY: 'QmFz/ZTY0+a==',
    WORKBOOK_MIRROR_SERVICE_API_TOKEN: '/varA9:$-_.~!*',
    WORKBOOK_MIRROR_HTTP_TOKEN: 'eyJhbGciOi.eyJzdWIi.c2ln-_',
  });
  expect([exitCode, stderr]).toEqual([0, expect.any(String)]);
});

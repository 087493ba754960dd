import { readFile } from 'node:fs/promises';

import { printable } from '../../src/lib/text/humanize.ts';
import { scrub } from '../../src/lib/text/scrub.ts';
import { readFlags, UsageError } from '../support/command-line.ts';
import { Subject, type SubjectOptions } from './subject.ts';
import { type Result, tryAll } from './suite.ts';

/**
 * Holds any installation against the service specification.
 * Exit codes: 0 every statement holds that can be tried, 1 some do not, 2 usage, or nothing could be tried.
 */

const USAGE = `Usage: npm run conformance -- --base-url URL --api-key-file FILE [options]

  --base-url URL          the application's address followed by /api
  --api-key-file FILE     holds the personal API key; or the variable CONFORMANCE_API_KEY
  --api-token-file FILE   holds the personal API token of v1; or CONFORMANCE_API_TOKEN
  --group-key-file FILE   holds a group key; or CONFORMANCE_GROUP_KEY
  --allow-writes          also creates repositories, which stay
  --external-url URL      a Git repository to connect, with --allow-writes; its credential, if it needs one, is in the
                          variables CONFORMANCE_GIT_USERNAME and CONFORMANCE_GIT_PASSWORD
  --sample N              repositories, branches and files that are looked into (default 3)
  --max-size MB           greatest answer that is read (default 64)
  --timeout SECONDS       longest time that an answer may take (default 60)
  --json                  the results as JSON

It sends keys that are made up, to see them refused: not for an installation that locks people out for that.`;

function numberOf(flag: string, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  const value = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (value < 1)
    throw new UsageError(`${flag}: a whole number from 1 is needed, not ${JSON.stringify(text)}`);
  return value;
}

/** @param flag the one that names the file */
async function credential(flag: string, file: string | undefined, variable: string): Promise<string | null> {
  const text = file === undefined ? process.env[variable] : await readCredential(flag, file);
  const value = text?.trim() ?? '';
  if (file !== undefined && value === '') throw new UsageError(`${flag}: the file is empty`);
  return value === '' ? null : value;
}

/** Reads a file. The error does not name it: the key itself may stand in its place. */
async function readCredential(flag: string, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    throw new UsageError(`${flag}: the file cannot be read (${code})`);
  }
}

function baseUrlOf(text: string | undefined): string {
  const url = URL.parse(text ?? '');
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw new UsageError('--base-url: is needed, an http or https address');
  if (url.username !== '' || url.password !== '' || url.search !== '') {
    throw new UsageError('--base-url must hold no credential and no query');
  }
  return url.href.replace(/\/$/, '');
}

const OPTIONS = {
  'base-url': { type: 'string' },
  'api-key-file': { type: 'string' },
  'api-token-file': { type: 'string' },
  'group-key-file': { type: 'string' },
  'external-url': { type: 'string' },
  'allow-writes': { type: 'boolean' },
  sample: { type: 'string' },
  'max-size': { type: 'string' },
  timeout: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

type Values = ReturnType<typeof readFlags<typeof OPTIONS>>;

async function optionsOf(values: Values): Promise<SubjectOptions> {
  const baseUrl = baseUrlOf(values['base-url']);
  const apiKey = await credential('--api-key-file', values['api-key-file'], 'CONFORMANCE_API_KEY');
  if (apiKey === null) throw new UsageError('--api-key-file, or the variable CONFORMANCE_API_KEY, is needed');
  const externalUrl = values['external-url'] ?? null;
  if (externalUrl !== null && URL.parse(externalUrl)?.password)
    throw new UsageError('--external-url must hold no credential');
  return {
    baseUrl,
    apiKey,
    apiToken: await credential('--api-token-file', values['api-token-file'], 'CONFORMANCE_API_TOKEN'),
    groupKey: await credential('--group-key-file', values['group-key-file'], 'CONFORMANCE_GROUP_KEY'),
    allowsWrites: values['allow-writes'] === true,
    externalUrl,
    externalCredential: {
      username: process.env['CONFORMANCE_GIT_USERNAME'] ?? '',
      password: process.env['CONFORMANCE_GIT_PASSWORD'] ?? '',
    },
    sample: numberOf('--sample', values.sample, 3),
    timeoutMs: numberOf('--timeout', values.timeout, 60) * 1000,
    maxBodyBytes: numberOf('--max-size', values['max-size'], 64) * 1_000_000,
  };
}

const SIGNS: Readonly<Record<Result['outcome'], string>> = {
  pass: 'pass',
  fail: 'FAIL',
  'not applicable': '-',
};

function line({ id, section, kind, outcome, statement, detail }: Result): string {
  const head = `${SIGNS[outcome].padEnd(4)}  ${id.padEnd(26)}  ${section.padEnd(17)}  ${kind.padEnd(8)}`;
  return `${head}  ${statement}\n${' '.repeat(6)}→ ${printable(detail)}`;
}

function summary(results: readonly Result[]): string {
  const count = (outcome: Result['outcome']): number =>
    results.filter((each) => each.outcome === outcome).length;
  return `${results.length} statements: ${count('pass')} hold, ${count('fail')} do not, ${count('not applicable')} could not be tried.`;
}

async function main(args: readonly string[]): Promise<number> {
  const values = readFlags(args, OPTIONS);
  if (values.help === true) {
    process.stdout.write(`${USAGE}\n`);
    return 0;
  }
  const options = await optionsOf(values);
  const { apiKey, apiToken, groupKey, externalCredential } = options;
  const secrets = [apiKey, apiToken, groupKey, externalCredential.password].filter(
    (secret) => secret !== null,
  );
  const print = (text: string): void => {
    process.stdout.write(`${scrub(text, secrets)}\n`);
  };
  const subject = new Subject(options);
  try {
    const first = await subject
      .current('/repos')
      .catch(
        (error: unknown) =>
          `${subject.options.baseUrl}: ${error instanceof Error ? error.message : String(error)}`,
      );
    if (typeof first === 'string' || [401, 403].includes(first.status)) {
      const why = typeof first === 'string' ? first : `it refuses the key (status ${first.status})`;
      process.stderr.write(scrub(`conformance: nothing could be tried: ${why}\n`, secrets));
      return 2;
    }
    const results = await tryAll(subject, (result) =>
      values.json === true ? undefined : print(line(result)),
    );
    print(values.json === true ? JSON.stringify(results, null, 2) : `\n${summary(results)}`);
    return results.some(({ outcome }) => outcome === 'fail') ? 1 : 0;
  } finally {
    await subject.close();
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`conformance: ${error.message}\n\n${USAGE}\n`);
  process.exitCode = 2;
}

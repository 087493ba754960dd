import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { unescape } from 'node:querystring';

import type { Command } from 'commander';

import { commandOf, runForState } from '../../app/command-hooks.ts';
import { refuseMissing } from '../../app/open-reader.ts';
import { noTarget, targetNamed } from '../../app/target-names.ts';
import { readTarget } from '../../app/tasks/diff-report.ts';
import { UNIT_SECRETS } from '../../config/problems.ts';
import { secretsOf } from '../../config/secret.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { requestOf } from '../../daemon/hooks/http-hooks.ts';
import { createPoster, type PostRequest } from '../../daemon/hooks/post.ts';
import { closing } from '../../lib/concurrency/shared-work.ts';
import { ownUserText } from '../../lib/disk/place-facts.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { runCommand } from '../../lib/process/command.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { roughDuration } from '../../lib/text/humanize.ts';
import { scrub, scrubbed } from '../../lib/text/scrub.ts';
import { escapedLines, type TerminalText } from '../../lib/text/terminal-text.ts';
import { manifestPaths } from '../../mirror/store/inventory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { publishedTree } from '../../mirror/store/published-tree.ts';
import { judged, type Lines, type Outcome, textOf } from '../frame/output.ts';
import { settingsOf } from './settings-flags.ts';

/** Maximum size of kept output. */
const OUTPUT_BYTES = 64 * 1024;

/** Marks the requests of a test for the log of their receiver. */
const AGENT = { 'user-agent': 'workbook-mirror (test)' };

/** `hooks test` */
export async function runHooksTest(command: Command): Promise<Outcome> {
  const [hook = '', asked] = command.args;
  const isRequest = hook === 'webhook' || hook === 'heartbeat';
  if (isRequest !== (asked === undefined)) {
    const what = isRequest ? 'is for the whole mirror: give no target' : 'runs for one target: name it';
    throw new MirrorError('usage.invalid', `hooks test ${hook} ${what}.`);
  }
  const { settings } = settingsOf(command, []);
  // Read them before root becomes another user.
  const secrets = secretsOf(settings);
  const startedAtMs = performance.now();
  const test =
    asked === undefined
      ? await testRequest(settings, hook)
      : await testCommand(settingsOf(command, ['directory']).settings, hook, asked);
  const shown = scrubbed({ hook, ...test, durationMs: performance.now() - startedAtMs }, secrets);
  return judged(shown.failure === null, shown, () => describeTest(shown));
}

/**
 * Sends a request. In the result of a test, `done` is the request, or the command and its environment, line by line; `status` that of the
 * answer, or the exit code, null if there was none; `output` the beginning of the answer or of standard output.
 */
async function testRequest(settings: SettingsFor<never>, hook: string) {
  const request = hook === 'webhook' ? webhookRequest(settings) : heartbeatRequest(settings);
  if (request === null) throw notSet(`hooks.${hook}`);
  const { address, method, headers = {}, body } = request;
  // The rest of the address is a secret.
  const line = `${method} ${URL.parse(address)?.origin ?? ''}, to the address of hooks.${hook}${hook === 'heartbeat' ? ', which counts it as a sign of life' : ''}`;
  const shown = Object.entries(headers).map(
    ([name, value]) => `  ${name}: ${name === 'webhook-signature' ? 'v1,***' : value}`,
  );
  const done = [line, ...shown, ...(body === undefined ? [] : ['', ...body.split('\n')])];
  try {
    const { status, text } = await closing(createPoster(), (poster) =>
      untilStopped((signal) => poster.send(request, signal)),
    );
    const message = `The receiver refused the request (status ${status}).`;
    const hint = 'Check the address and the program behind it. Redirects are not followed.';
    const isTaken = status >= 200 && status < 300;
    const failure = isTaken ? null : failureOf(new MirrorError('notification.failed', message, { hint }));
    return { done, status, output: scrub(text, partsOf(address)), errorOutput: '', failure };
  } catch (error) {
    return { done, status: null, output: '', errorOutput: '', failure: failureOf(error) };
  }
}

/** The parts of an address behind its host. A receiver may repeat them, and they are enough to write there. */
function partsOf(address: string): string[] {
  const { pathname = '', search = '', username = '', password = '' } = URL.parse(address) ?? {};
  const basic = Buffer.from(`${username}:${password}`).toString('base64');
  const parts = `${pathname}${search}`.split(/[/?&=]/);
  return [pathname + search, ...parts, ...parts.map((part) => unescape(part)), basic];
}

function webhookRequest(settings: SettingsFor<never>): PostRequest | null {
  const message = 'This is a test: nothing has happened.';
  const facts = { id: `msg_${randomUUID()}`, at: new Date().toISOString(), host: hostname() };
  const test = { ...facts, type: 'test' as const, fields: { message } };
  const request = requestOf(test, settings.hooks, (text) => scrub(text, secretsOf(settings)));
  return request && { ...request, headers: { ...AGENT, ...request.headers } };
}

function heartbeatRequest({ hooks }: SettingsFor<never>): PostRequest | null {
  return hooks.heartbeat === undefined
    ? null
    : { method: 'GET', address: hooks.heartbeat.reveal(), headers: AGENT };
}

/** Runs a command as if the published tree of a target were published for the first time. */
async function testCommand(settings: SettingsFor<'directory'>, hook: string, asked: string) {
  const name = hook === 'after-publish' ? 'afterPublish' : 'beforePublish';
  const command = commandOf(settings, name);
  if (command === null) throw notSet(`hooks.${name}`);
  await refuseMissing(settings.directory);
  await becomeOwnerOf(settings.directory);
  const layout = layoutOf(settings.directory);
  const known = await manifestPaths(layout);
  const { path: target, published } = await readTarget(layout, targetNamed(asked, layout.mirror, known));
  if (published === null) return noTarget(target, known);
  const folder = publishedTree(layout, target);
  const { manifest } = published;
  const event = name === 'afterPublish' ? 'published' : 'staged';
  const run = runForState(event, layout, { target, manifest, previous: null, folder });
  const environment = { ...run.environment, MIRROR_TEST: '1' };
  const done = [
    `${command.words.join(' ')}, for ${target}`,
    `  as ${ownUserText()}, in ${folder}`,
    '  with PATH, HOME and the like of this process; those of the daemon may differ',
  ];
  let output = Buffer.alloc(0);
  const onOutput = (piece: Buffer): void => {
    if (output.length < OUTPUT_BYTES) output = Buffer.concat([output, piece]).subarray(0, OUTPUT_BYTES);
  };
  try {
    const request = { ...command, ...run, environment, onOutput };
    const { exitCode, said } = await untilStopped((signal) => runCommand({ ...request, signal }));
    const message = `It ended with exit code ${exitCode}.`;
    const failure = exitCode === 0 ? null : failureOf(new MirrorError('hook.failed', message));
    return { done, status: exitCode, output: output.toString(), errorOutput: said, failure };
  } catch (error) {
    return { done, status: null, output: output.toString(), errorOutput: '', failure: failureOf(error) };
  }
}

function failureOf(error: unknown): Pick<MirrorError, 'code' | 'message' | 'hint'> {
  const { code, message, hint } = toMirrorError(error);
  if (code === 'pass.abandoned' || code === 'internal.defect') throw error;
  return { code, message, hint };
}

function notSet(name: string): MirrorError {
  return new MirrorError('settings.invalid', `${name} is not set: there is nothing to test.`, {
    hint: `Give the settings of the daemon, with --config, as a user who may read its secrets. ${UNIT_SECRETS}`,
  });
}

/** Describes the test of a hook to a person. */
function describeTest(
  test: Awaited<ReturnType<typeof testRequest>> & { readonly hook: string; readonly durationMs: number },
): TerminalText {
  const { hook, done, status, output, errorOutput, durationMs, failure } = test;
  const isRequest = hook === 'webhook' || hook === 'heartbeat';
  const part = (title: string, text: string): Lines =>
    text !== '' && [title, escapedLines(text.trimEnd()).prefixed('  ')];
  return textOf(
    done,
    '',
    part(isRequest ? 'Answer:' : 'Standard output:', output),
    part('Standard error:', errorOutput),
    status !== null && `${isRequest ? 'Status' : 'Exit code'} ${status}`,
    `It took ${roughDuration(durationMs)}.`,
    failure === null ? 'It succeeded.' : `Failed: ${failure.message}`,
    failure?.hint ?? null,
  );
}

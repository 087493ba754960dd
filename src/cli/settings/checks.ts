import { constants, statSync } from 'node:fs';
import { access, lstat } from 'node:fs/promises';
import { promisify } from 'node:util';

import { buildConnector } from 'undici';

import { checkCommand } from '../../app/command-hooks.ts';
import { withService } from '../../app/installation.ts';
import { openStateOf } from '../../app/open-reader.ts';
import { sharingSetting } from '../../config/changes.ts';
import type { LoadedSettings } from '../../config/load.ts';
import { Secret } from '../../config/secret.ts';
import type { Generation } from '../../lib/api/requests.ts';
import { closing, waitAtMost } from '../../lib/concurrency/shared-work.ts';
import { locksIn } from '../../lib/disk/lock-reach.ts';
import { existingAbove, ownUserText, roomAt } from '../../lib/disk/place-facts.ts';
import { systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { createWays } from '../../lib/net/ways.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { transportError } from '../../mirror/upstream/failures.ts';
import { refuseForeignDirectory } from '../../mirror/store/directory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { limitsOfDirectory } from '../../mirror/store/probes.ts';
import {
  clockFinding,
  failed,
  type Finding,
  keyFindings,
  locksFindings,
  roomFindings,
  warning,
  well,
} from './findings.ts';

type Settings = LoadedSettings<readonly ['service', 'directory']>['settings'];

/** Timeouts of one check, and of one answer in it, in milliseconds: after some tries, a check still ends by its own error. */
const CHECK_MS = 60_000;
const ANSWER_MS = 10_000;

/** A check of some settings. */
type Check = readonly [subject: string, check: () => Promise<Finding[]>];

/** The checks that need no network. */
function localChecks(settings: Settings): readonly Check[] {
  const { directory } = settings;
  return [
    ...(['afterPublish', 'beforePublish'] as const).map((name): Check => {
      const subject = `hooks.${name}`;
      const check = async (): Promise<Finding[]> => {
        const program = await checkCommand(settings, name);
        return program === undefined ? [] : [well(subject, `${program} can be run`)];
      };
      return [subject, check];
    }),
    ['directory', async () => locksFindings(directory, await locksIn(directory), sharingSetting(settings))],
    ['directory', () => checkFileSystem(settings)],
  ];
}

/** Checks the directory and the commands of hooks. @throws MirrorError the first failure */
export async function checkLocally(settings: Settings): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const [, check] of localChecks(settings)) findings.push(...(await check()));
  return findings;
}

/** Makes all checks at the same time. A check that fails or hangs does not end the others. */
export async function checkOnline(settings: Settings): Promise<Finding[]> {
  const { hooks, directory } = settings;
  const checks: readonly Check[] = [
    ['service', () => checkKeys(settings, 'current')],
    ['service, v1', () => checkKeys(settings, 'v1')],
    ['free space', async () => roomFindings(roomAt(directory))],
    ...localChecks(settings),
    ['hooks.webhook', () => checkReceiver('webhook', hooks.webhook?.reveal())],
    ['hooks.heartbeat', () => checkReceiver('heartbeat', hooks.heartbeat?.reveal())],
    ['state', () => checkState(settings)],
  ];
  const hung = new MirrorError('service.timeout', 'the check did not end in time');
  const found = checks.map(async ([subject, check]) => {
    const ended = check().catch((error: unknown) => [failed(subject, error)]);
    return (await waitAtMost(ended, CHECK_MS)) ?? [failed(subject, hung)];
  });
  return [userFinding(directory), ...(await Promise.all(found)).flat()];
}

/** The user of the checks: only the daemon's own user can find out what that user may do. */
function userFinding(directory: string): Finding {
  const owner = statSync(directory, { throwIfNoEntry: false })?.uid;
  const finding = `the checks ran as ${ownUserText()}`;
  if (owner === undefined || owner === process.geteuid?.()) return well('user', finding);
  const whatToDo = `The directory belongs to user ${owner}: run the check as that user, or as root.`;
  return warning('user', finding, whatToDo);
}

/** Reads a list of the service with each key of a setting alone. */
async function checkKeys(settings: Settings, generation: Generation): Promise<Finding[]> {
  const { baseUrl } = settings.service;
  const name = generation === 'current' ? 'apiKey' : 'apiToken';
  const failures: (MirrorError | null)[] = [];
  let serviceTimeMs: number | null = null;
  for (const key of settings.service[name]?.revealAll() ?? []) {
    const service = { ...settings.service, [name]: new Secret(() => [key]), timeout: ANSWER_MS };
    const read = withService({ ...settings, service }, async (client) => {
      const { signal } = new AbortController();
      if (generation === 'current') ({ serviceTimeMs } = await client.repositories(signal));
      else if ((await client.workbooks(signal)) === null)
        throw new MirrorError('service.not_found', 'the service has no v1, so that the token is of no use');
    });
    const failure = await read.then(() => null, toMirrorError);
    if (generation === 'current' && failure !== null && failure.code !== 'credentials.refused')
      return [failed('service.baseUrl', failure)];
    failures.push(failure);
  }
  const found = keyFindings(`service.${name}`, failures);
  if (generation === 'v1' || failures.length === 0) return found;
  // Only the answer to an accepted key shows the time of the service.
  const clock = failures.includes(null) ? [clockFinding(serviceTimeMs, Date.now())] : [];
  return [well('service.baseUrl', `${baseUrl} answers`), ...found, ...clock];
}

async function checkFileSystem({ directory, publish, archive }: Settings): Promise<Finding[]> {
  const subject = 'directory';
  const limits = await limitsOfDirectory(directory, { publish, nameTwins: archive.nameTwins });
  if (limits?.length === 0) return [well(subject, 'its file system can do all that is needed')];
  if (limits !== null)
    return limits.map((limit) =>
      warning(subject, `its file system ${limit}`, 'Read `help on-disk`, if that matters.'),
    );
  // A folder that this user may not look into may hold a mirror.
  const found = await unlessMissing(lstat(layoutOf(directory).internal)).catch(() => undefined);
  if (found === null) return [await newDirectory(directory)];
  const refusal = await access(directory, constants.W_OK).catch(systemCode);
  if (refusal === 'EROFS') {
    const hint = 'Mount it for writing.';
    return [failed(subject, new MirrorError('directory.unusable', 'its file system is read-only', { hint }))];
  }
  const finding = 'the abilities of its file system were not tried';
  return [warning(subject, finding, 'Run the check as the user of the daemon.')];
}

/** The finding for a directory without a mirror. Tries nothing that writes. @throws MirrorError `directory.unusable` if it holds other data */
async function newDirectory(directory: string): Promise<Finding> {
  const subject = 'directory';
  const place = existingAbove(directory);
  try {
    await refuseForeignDirectory(layoutOf(directory), false);
    await access(`${place}/.`, constants.W_OK | constants.X_OK);
    return well(subject, 'the first pass makes the mirror, and tries the abilities of its file system');
  } catch (error) {
    if (error instanceof MirrorError) throw error;
    const hint = 'The systemd unit makes it. Without one, check as the user of the daemon, and let it write.';
    return warning(subject, `this user cannot make a mirror below ${place}`, hint);
  }
}

/** Connects to a receiver, or to the proxy on the way there, and sends nothing. */
async function checkReceiver(hook: 'webhook' | 'heartbeat', address: string | undefined): Promise<Finding[]> {
  if (address === undefined) return [];
  const ways = createWays({ connectTimeoutMs: ANSWER_MS });
  const { proxy } = ways.to(new URL(address));
  await ways.close();
  const { protocol, hostname, port, origin } = new URL(proxy?.origin ?? address);
  const connect = promisify(buildConnector({ timeout: ANSWER_MS }));
  const socket = await connect({ protocol, hostname, port }).catch((error: unknown) => {
    const { message } = toMirrorError(transportError(error, new URL(origin)));
    // The hints of the service's errors name other settings.
    const hint = 'Check the address, the network, the proxy settings and the certificate.';
    throw new MirrorError('notification.failed', message, { hint });
  });
  socket?.destroy();
  const finding = `${proxy === null ? origin : `the proxy ${origin}`} takes connections; nothing was sent`;
  const whatToDo = `\`${ownCommand('hooks test', hook)}\` sends a test.`;
  return [{ ...well(`hooks.${hook}`, finding), whatToDo }];
}

async function checkState(settings: Settings): Promise<Finding[]> {
  if (settings.state.store === 'sqlite') return [well('state', 'it is a file in the directory')];
  const place = { layout: layoutOf(settings.directory), id: 'config-check' };
  const state = await openStateOf(settings, place, true, () => {});
  await closing(state, () => state.records());
  return [well('state', 'its server answers')];
}

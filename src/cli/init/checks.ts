import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { withService } from '../../app/installation.ts';
import { baseUrl as addressKind } from '../../config/addresses.ts';
import type { Need } from '../../config/kinds.ts';
import { type Layer, resolveSettings } from '../../config/layers.ts';
import type { NeedsOf, SettingsFor } from '../../config/schema.ts';
import { REPOSITORIES_PATH, underOtherName } from '../../lib/api/requests.ts';
import { makeFolders } from '../../lib/disk/durable.ts';
import { existingAbove, roomAt } from '../../lib/disk/place-facts.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { counted, roughSize } from '../../lib/text/humanize.ts';
import { refuseForeignDirectory } from '../../mirror/store/directory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { limitsOfDirectory } from '../../mirror/store/probes.ts';
import { Asker, type ProbeAnswer } from '../../probe/connection.ts';

/** Sets a value as if a flag had given it. */
export function give(layer: Layer, name: string, value: string): void {
  layer.values.set(name, { value, source: { kind: 'flag', detail: 'as typed' }, base: process.cwd() });
}

/** The settings, validated. @throws MirrorError `settings.invalid` */
export function settingsIn<const T extends readonly Need[]>(layer: Layer, needs: T): SettingsFor<NeedsOf<T>> {
  return resolveSettings([layer], needs).settings;
}

/**
 * Asks the API behind a pasted address, by requests without a key, and replaces the address by that of the API.
 * @throws MirrorError `settings.invalid` if it is not an address, `service.not_found` if no API answers
 */
export async function findApi(layer: Layer): Promise<string> {
  const pasted = layer.values.get('service.baseUrl')?.value ?? settingsIn(layer, ['service']).service.baseUrl;
  const baseUrl = apiAddress(String(pasted));
  const { status = 0, headers = {}, failure = null } = (await askWithoutKey(baseUrl)) ?? {};
  if (isOfApi(status, headers['content-type'])) {
    give(layer, 'service.baseUrl', baseUrl);
    return `The API is at ${baseUrl}`;
  }
  const message = `The API of the service does not answer at ${baseUrl}: ${failure?.message ?? `status ${status}`}`;
  const hint =
    failure?.hint ??
    'Paste the address that the browser shows while the application is open; if that has folders, only those of the application, and /api.';
  throw new MirrorError('service.not_found', message, { hint });
}

/** Timeouts of one answer, and of all answers at an address, in milliseconds. */
const ANSWER_MS = 10_000;
const ALL_MS = 60_000;

/** Asks for the repositories without a key, once by each name of the list until one exists. @returns the last answer, if one came */
async function askWithoutKey(baseUrl: string): Promise<Omit<ProbeAnswer, 'body'> | undefined> {
  const targets = [REPOSITORIES_PATH, underOtherName(REPOSITORIES_PATH)];
  const limits = { timeoutMs: ANSWER_MS, signal: AbortSignal.timeout(ALL_MS), maxRequests: targets.length };
  const asker = new Asker({ baseUrl, credential: () => null, ...limits, onProgress: () => {} });
  for (const target of targets) {
    // It throws if a key is asked for, or fewer requests: the status says so.
    await asker.ask({ target }).catch(() => {});
    if (asker.answers.at(-1)?.status !== 404) break;
  }
  await asker.close();
  return asker.answers.at(-1);
}

/** Tries the API key, and counts what it lists. @throws MirrorError `service.*`, `credentials.refused`, `listing.malformed` */
export function tryKey(layer: Layer): Promise<string> {
  return withService(settingsIn(layer, ['service']), async (client) => {
    const { repositories } = await client.repositories(new AbortController().signal);
    return `The current API lists ${counted(repositories.length, 'repository', 'repositories')}.`;
  });
}

/** Tries the API token, and counts what it lists. @throws MirrorError as {@link tryKey}, and `listing.inconsistent` */
export function tryToken(layer: Layer): Promise<string> {
  return withService(settingsIn(layer, ['service']), async (client) => {
    const list = await client.workbooks(new AbortController().signal);
    if (list === null) return 'There is no v1, so that the token is of no use.';
    return `v1 lists ${counted(list.rows.length, 'workbook')}.`;
  });
}

/** Tries whether a mirror can be in the directory. Leaves nothing behind. @throws MirrorError `directory.unusable`, `disk.*` */
export async function tryDirectory(layer: Layer): Promise<string> {
  const { directory, publish, archive } = settingsIn(layer, ['directory']);
  const layout = layoutOf(directory);
  const place = existingAbove(layout.staging);
  const tryOut = async (): Promise<readonly [boolean, readonly string[]]> => {
    const isThere = await refuseForeignDirectory(layout, false);
    const trial = await mkdtemp(join(place, '.workbook-mirror-init-'));
    try {
      await makeFolders(layoutOf(trial).staging);
      return [isThere, (await limitsOfDirectory(trial, { publish, nameTwins: archive.nameTwins })) ?? []];
    } finally {
      await rm(trial, { recursive: true, force: true });
    }
  };
  const [isThere, limits] = await onDisk(`trying out ${directory}`, tryOut, place);
  const effects = limits.map((limit) => ` Its file system ${limit}.`).join('');
  return `A mirror ${isThere ? 'is' : 'can be made'} there; ${roughSize(roomAt(place)?.freeBytes ?? 0)} are free.${effects}`;
}

/**
 * The address of the API for a pasted address: its part up to `/api`, or `/api` at its host. It begins with https unless http was typed: a
 * guess must not send a key unencrypted.
 * @throws MirrorError `settings.invalid` if it is not an address, or holds a password
 */
export function apiAddress(pasted: string): string {
  const text = pasted.trim().replace(/[?#].*$/s, '');
  const { origin, pathname } = new URL(
    addressKind.parse(text.includes('://') ? text : `https://${text}`, ''),
  );
  const names = pathname.split('/').filter((name) => name !== '');
  return [origin, ...names.slice(0, Math.max(0, names.indexOf('api'))), 'api'].join('/');
}

/** Whether the API gave this answer to a request for the repositories without a key. @param status 0 if no answer came */
export function isOfApi(status: number, contentType = ''): boolean {
  return status === 401 || status === 403 || (status === 200 && /\bjson\b/i.test(contentType));
}

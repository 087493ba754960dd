import { realpath } from 'node:fs/promises';
import { formatListen } from '../../config/addresses.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { agoText, counted, roughDuration, utcTime } from '../../lib/text/humanize.ts';
import type { TargetRecord } from '../../mirror/plan/record.ts';
import { say } from '../../lib/text/terminal-text.ts';
import type { Library } from '../../server/http/library.ts';
import {
  describeMeeting,
  findMeetings,
  joinLibraries,
  type Meeting,
  type MirrorPart,
} from '../../server/replica/joined.ts';
import {
  createReplicaLibrary,
  type ReplicaTotals,
  type ReplicaTrouble,
} from '../../server/replica/library.ts';
import type { MirrorPort } from '../../server/replica/manifests.ts';
import { createService } from '../../server/http/service.ts';
import { type State, type StoredPass, unlessStateFails } from '../../mirror/state/state.ts';
import { knownDirectoryId } from '../../mirror/store/directory.ts';
import { type DirectoryLayout, layoutOf } from '../../mirror/store/layout.ts';
import { wayToTree } from '../../mirror/store/published-tree.ts';
import { parseManifest } from '../../mirror/store/manifest-text.ts';
import { openStateOf, refuseMissing, statusPolicyOf } from '../../app/open-reader.ts';
import { printData, tellEvent } from '../frame/output.ts';
import { refuseMissingServeDirectory, refuseNoMirror } from '../../server/start/directory.ts';
import { openServedKeys } from '../../server/start/keys.ts';
import { log } from '../../server/start/log.ts';
import { createTroubleTeller, type Stop, tellKeys, tellRequest } from '../../server/start/start.ts';

type ReplicaSettings = SettingsFor<'directory'>;

/**
 * Answers the reading part of the API from published mirrors until it is told to stop. Works beside their daemons and without them;
 * locks and writes nothing.
 * @param mirrors the settings by which each is read, one at least
 * @throws MirrorError `directory.unusable`, `http.unusable`
 */
export async function serveReplica(
  stop: Stop,
  own: ReplicaSettings['serve'],
  mirrors: readonly ReplicaSettings[],
): Promise<void> {
  await refuseSameTwice(mirrors.map(({ directory }) => directory));
  const parts: OpenMirror[] = [];
  for (const settings of mirrors) parts.push(await openMirror(settings, mirrors.length === 1));
  const library = await libraryOf(parts);
  if (own.directory !== undefined) await refuseMissingServeDirectory(own.directory);
  const { keys, temporary, secrets } = await openServedKeys(own, own.directory ?? null);
  const service = createService({
    library,
    keys,
    onRequest: (info) => tellRequest(info, secrets),
    onTrouble: createTroubleTeller(),
  });
  try {
    if (stop.isAsked()) return;
    const { baseUrl, port } = await service.listen(own.listen);
    log(`Listening on ${formatListen({ ...own.listen, port })}.`);
    for (const part of parts) await tellStart(part);
    await tellKeys({ baseUrl, own, keys, temporary, mirrorDirectory: './second-mirror' });
    printData(say`${baseUrl}`);
    await stop.asked;
  } finally {
    await service.close();
  }
}

/** @throws MirrorError `usage.invalid` where two of the directories are one, perhaps by another way */
async function refuseSameTwice(directories: readonly string[]): Promise<void> {
  const known = new Map<string, string>();
  for (const directory of directories) {
    const real = await realpath(directory).catch(() => directory);
    const other = known.get(real);
    if (other !== undefined) {
      const which = other === directory ? directory : `${other} and ${directory}`;
      throw new MirrorError('usage.invalid', `--directory names the same mirror twice: ${which}.`);
    }
    known.set(real, directory);
  }
}

/** A mirror that is answered from, and what was found in it at the start. */
interface OpenMirror extends MirrorPart {
  readonly settings: ReplicaSettings;
  readonly layout: DirectoryLayout;
  readonly totals: ReplicaTotals;
  /** A target, as the log names it: of several mirrors with its directory. */
  readonly nameOf: (target: string) => string;
}

/** @throws MirrorError `directory.unusable` */
async function openMirror(settings: ReplicaSettings, isAlone: boolean): Promise<OpenMirror> {
  const { directory } = settings;
  await refuseNoMirror(directory);
  await refuseMissing(directory);
  const layout = layoutOf(directory);
  await refuseMissing(layout.manifests);
  const nameOf = (target: string): string => (isAlone ? target : `${target} in ${directory}`);
  const library = createReplicaLibrary(mirrorPort(settings, layout), (trouble) =>
    tellTrouble(trouble, nameOf),
  );
  // A mirror that cannot be listed is reported at the start, and not only to clients.
  return { directory, settings, layout, library, totals: await library.totals(), nameOf };
}

/** So many of the repositories that meet are named. */
const MEETINGS_SHOWN = 5;

/** @throws MirrorError `directory.unusable` where repositories of two mirrors meet */
async function libraryOf(parts: readonly OpenMirror[]): Promise<Library> {
  const [first, ...others] = parts;
  if (first !== undefined && others.length === 0) return first.library;
  const lists = parts.map(async ({ directory, library }) => ({
    directory,
    repositories: await library.knownRepositories(),
  }));
  const meetings = findMeetings(await Promise.all(lists));
  if (meetings.length === 0) return joinLibraries(parts, tellMeetings);
  const more = meetings.length - MEETINGS_SHOWN;
  const lines = [
    'directory: one replica cannot answer for all of these mirrors, as names or ids of their repositories meet:',
    ...meetings.slice(0, MEETINGS_SHOWN).map((meeting) => `${describeMeeting(meeting)}.`),
    ...(more > 0 ? [`So do ${more} more.`] : []),
  ];
  throw new MirrorError('directory.unusable', lines, {
    hint: 'Leave one of them out, or start a replica of its own for it, with another --serve-listen.',
  });
}

async function tellStart({ directory, settings, layout, totals, nameOf }: OpenMirror): Promise<void> {
  log(describeStart(directory, totals));
  const lastPass = await readState<StoredPass | null>(settings, layout, (state) => state.lastPass(), null);
  log(describeAge(totals, lastPass, statusPolicyOf(settings).maxStalenessMs, Date.now()));
  for (const path of totals.unreadable) log(describeUnreadable(nameOf(path)), 'error');
}

function mirrorPort(settings: ReplicaSettings, layout: DirectoryLayout): MirrorPort {
  return {
    directory: layout.root,
    mirror: layout.mirror,
    wayToTree: (target) => wayToTree(layout, target),
    manifests: layout.manifests,
    parseManifest,
    records: () => readState(settings, layout, (state) => state.records(), new Map<string, TargetRecord>()),
  };
}

/** Reads what the daemon remembers, anew each time: its file may be another one by then, or come and go. */
function readState<T>(
  settings: ReplicaSettings,
  layout: DirectoryLayout,
  read: (state: State) => Promise<T>,
  fallback: T,
): Promise<T> {
  const call = async (): Promise<T> => {
    const id = (await knownDirectoryId(layout)) ?? '';
    const state = await openStateOf(settings, { layout, id }, true, tellEvent);
    try {
      return await read(state);
    } finally {
      await state.close();
    }
  };
  return unlessStateFails(call(), fallback);
}

/** The line that says which mirror is served. */
function describeStart(directory: string, { repositories, targets }: ReplicaTotals): string {
  const what = `${counted(repositories, 'repository', 'repositories')}, ${counted(targets, 'branch', 'branches')}`;
  return `Serving the mirror ${directory}, read-only: ${what}.`;
}

/** The line that says how old the mirror may be. */
export function describeAge(
  { oldestVerifiedAtMs }: Pick<ReplicaTotals, 'oldestVerifiedAtMs'>,
  lastPass: Pick<StoredPass, 'startedAtMs' | 'failure'> | null,
  maxStalenessMs: number,
  nowMs: number,
): string {
  if (oldestVerifiedAtMs === null) return 'Nothing is mirrored yet.';
  const ageMs = nowMs - oldestVerifiedAtMs;
  const late = ageMs > maxStalenessMs ? `, longer than maxStaleness (${roughDuration(maxStalenessMs)})` : '';
  const oldest = `Verified longest ago: ${utcTime(oldestVerifiedAtMs)}, ${roughDuration(ageMs)} ago${late}.`;
  if (lastPass === null) return `${oldest} No pass of the daemon is on record.`;
  const end = lastPass.failure === null ? '' : `, failed: ${lastPass.failure.code}`;
  return `${oldest} The daemon's last pass: ${agoText(lastPass.startedAtMs, nowMs)}${end}.`;
}

function describeUnreadable(path: string): string {
  return `The manifest of ${path} cannot be read or understood: the lists are refused (503) until it can; other contents are given.`;
}

function tellTrouble({ target, path, what }: ReplicaTrouble, nameOf: OpenMirror['nameOf']): void {
  const where = path === '' ? target : `${target}/${path}`;
  log(`${nameOf(where)} was refused: ${what}; \`verify\` says more`, 'warn');
}

function tellMeetings(meetings: readonly Meeting[]): void {
  if (meetings.length === 0) log('No repositories of two mirrors meet any more: the lists are given again.');
  for (const meeting of meetings)
    log(
      `${describeMeeting(meeting)}: the lists and the contents of both are refused (503) until one is renamed or gone; other contents are given.`,
      'error',
    );
}

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Command } from 'commander';

import { loadSettings } from '../../config/load.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { createLoop } from '../../daemon/loop.ts';
import { createProgressMonitor } from '../../daemon/supervision/progress-monitor.ts';
import { startTicker } from '../../daemon/triggers/ticker.ts';
import { compareWithGit } from '../../server/demo/compare.ts';
import { createSamples } from '../../server/demo/samples.ts';
import { createWriter, type Edit, type Writer } from '../../server/demo/writer.ts';
import { createGitLibrary } from '../../server/git/library.ts';
import type { Registry } from '../../server/git/registry.ts';
import { withTemporaryFolder } from '../../lib/disk/temporary.ts';
import { EXIT_CODES, type ExitCode, MirrorError } from '../../lib/errors/errors.ts';
import type { TargetPulled } from '../../mirror/pass/events.ts';
import type { EventSink, MirrorEvent } from '../../app/events.ts';
import { counted, roughDuration, roughSize } from '../../lib/text/humanize.ts';
import { encodeSegment, repositoryPath } from '../../lib/paths/safe-path.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { fixedKey } from '../../server/http/keys.ts';
import { createService } from '../../server/http/service.ts';
import { runPass } from '../../mirror/pass/pass.ts';
import { createStatusService } from '../../daemon/status/status-service.ts';
import { type Mirror, openMirror } from '../../app/open-mirror.ts';
import { startHttp } from '../../daemon/web/status-server.ts';
import { bold, type Outcome, printData, tell } from '../frame/output.ts';
import { abortOnSignal } from '../../lib/process/signals.ts';
import { standardOutput } from '../../lib/process/streams.ts';
import { progressOf } from '../change/sync.ts';

const POLL_SCHEDULE = '* * * * * *';
const PAUSE_BETWEEN_EDITS_MS = 4000;
const MIRRORED_WITHIN_MS = 60_000;

const KEY = 'demo-key-for-the-current-api';
const TOKEN = 'demo-token-for-v1';

/**
 * `demo`: the embedded service with sample repositories, a writer that edits them, and the daemon on it, all in a temporary
 * folder that is removed at the end.
 */
export async function runDemo(command: Command): Promise<Outcome> {
  const { once = false }: { once?: boolean } = command.opts();
  const { signal, stopListening } = abortOnSignal();
  try {
    return await withTemporaryFolder('demo', (folder) => runIn(folder, once, signal));
  } finally {
    stopListening();
  }
}

async function runIn(folder: string, once: boolean, signal: AbortSignal): Promise<Outcome> {
  const { registry } = await createSamples(join(folder, 'service'));
  const library = createGitLibrary(registry);
  const keys = [fixedKey('personal', 'demo', KEY), fixedKey('token', 'demo', TOKEN)];
  const service = createService({ library, keys: () => Promise.resolve(keys) });
  try {
    const { baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 });
    const settings = demoSettings(baseUrl, join(folder, 'mirrored'));
    tell(say`The embedded service serves ${registry.list().length} Git repositories at ${bold(baseUrl)}`);
    tell(say`The daemon mirrors them into ${bold(join(settings.directory, 'mirror'))}\n`);
    return { exitCode: await mirrorAndEdit(settings, registry, once, signal) };
  } finally {
    await service.close();
    await library.close();
    await registry.close();
  }
}

function demoSettings(baseUrl: string, directory: string): SettingsFor<'service' | 'directory'> {
  const env = {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: baseUrl,
    WORKBOOK_MIRROR_SERVICE_API_KEY: KEY,
    WORKBOOK_MIRROR_SERVICE_API_TOKEN: TOKEN,
    WORKBOOK_MIRROR_DIRECTORY: directory,
    WORKBOOK_MIRROR_SCHEDULE: POLL_SCHEDULE,
    WORKBOOK_MIRROR_READER_GRACE: '1s',
    WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
  };
  return loadSettings({ flags: {}, env, needs: ['service', 'directory'], defaultConfigFile: '/nonexistent' })
    .settings;
}

async function mirrorAndEdit(
  settings: SettingsFor<'service' | 'directory'>,
  registry: Registry,
  once: boolean,
  signal: AbortSignal,
): Promise<ExitCode> {
  const progress = progressOf(settings);
  const activity = createProgressMonitor(() => progress.monitor.pulls().length > 0);
  const sinks: EventSink[] = [progress.sink];
  const emit: EventSink = (event) => {
    for (const sink of sinks) sink(event);
  };
  const mirror = await openMirror(settings, emit, {
    onProgress: activity.touch,
    reportFirstAccept: true,
    monitor: progress.monitor,
  });
  const status = createStatusService(() => settings, mirror, activity);
  const http = await startHttp(() => settings, status, emit);
  try {
    sinks.push(status.sink, http.sink);
    await runPass(mirror.context, mirror.policy, 'start', signal);
    progress.close();
    const writer = createWriter({ registry });
    const edits = createEditFollower(settings.directory, registry);
    sinks[0] = (event) => {
      edits.take(event);
      if (event.name.endsWith('failed')) progress.sink(event);
    };
    if (!once) tell(say`\nA writer now commits an edit every few seconds. Ctrl-C stops everything.\n`);
    await withDaemon(settings, mirror, emit, async () => {
      const wanted = once ? 1 : Number.POSITIVE_INFINITY;
      for (let made = 0; made < wanted; made += 1) {
        if (made > 0 && !(await pausedFor(PAUSE_BETWEEN_EDITS_MS, signal))) break;
        await editOnce(writer, edits, signal);
      }
    });
    return await compare(settings, registry);
  } catch (error) {
    if (!signal.aborted) throw error;
    tell(say`Stopped.`);
    return EXIT_CODES.ok;
  } finally {
    progress.close();
    await http.close();
    await mirror.close();
  }
}

/** Lets the daemon's loop run on its schedule meanwhile. */
async function withDaemon(
  settings: SettingsFor<'service' | 'directory'>,
  mirror: Mirror,
  emit: EventSink,
  work: () => Promise<void>,
): Promise<void> {
  const failed = Promise.withResolvers<never>();
  const loop = createLoop(
    async (trigger, signal) => {
      await runPass(mirror.context, mirror.policy, trigger, signal);
    },
    (error) => failed.reject(error),
  );
  const ticker = startTicker(
    settings,
    () => loop.trigger('schedule'),
    (nextPassAtMs) => emit({ name: 'daemon.scheduled', nextPassAtMs }),
  );
  try {
    await Promise.race([work(), failed.promise]);
  } finally {
    ticker.stop();
    await loop.stop();
  }
}

async function editOnce(writer: Writer, edits: EditFollower, signal: AbortSignal): Promise<void> {
  const edit = await writer.edit();
  const { pulled, readableAtMs } = await edits.mirrored(edit, signal);
  const where = `${edit.repository}, ${edit.branch}`;
  const what = `pulled ${roughSize(pulled.downloadedBytes)}, ${counted(pulled.added + pulled.changed + pulled.removed, 'file')} published (${pulled.method})`;
  const latency = roughDuration(readableAtMs - edit.committedAt.getTime());
  printData(
    say`${bold(edit.summary, standardOutput)} in ${where}: ${what}, readable on disk ${latency} after the commit`,
  );
}

async function pausedFor(durationMs: number, signal: AbortSignal): Promise<boolean> {
  return sleep(durationMs, true, { signal }).catch(() => false);
}

interface EditFollower {
  readonly take: EventSink;
  /** Waits until an edit is what a reader finds on disk. */
  readonly mirrored: (
    edit: Edit,
    signal: AbortSignal,
  ) => Promise<{ pulled: TargetPulled; readableAtMs: number }>;
}

/** Follows the daemon's events until a target was published, and then looks at the disk itself. */
function createEditFollower(directory: string, registry: Registry): EditFollower {
  const waiting = new Set<(event: MirrorEvent) => void>();
  return {
    take: (event) => {
      for (const listener of waiting) listener(event);
    },
    mirrored: (edit, signal) => {
      const target = targetOf(edit.repository, edit.branch);
      const done = Promise.withResolvers<{ pulled: TargetPulled; readableAtMs: number }>();
      const listener = (event: MirrorEvent): void => {
        if (event.name !== 'target.pulled' || event.target !== target) return;
        const readableAtMs = Date.now();
        isOnDisk(directory, registry, edit).then(
          (isThere) => isThere && done.resolve({ pulled: event, readableAtMs }),
          done.reject,
        );
      };
      const giveUp = AbortSignal.any([signal, AbortSignal.timeout(MIRRORED_WITHIN_MS)]);
      giveUp.addEventListener('abort', () => done.reject(tooLate(edit)));
      waiting.add(listener);
      return done.promise.finally(() => waiting.delete(listener));
    },
  };
}

function tooLate(edit: Edit): MirrorError {
  return new MirrorError('internal.defect', `The edit "${edit.summary}" did not reach the mirror in time.`);
}

/** Whether the branch that was edited is on disk what it is in Git. */
async function isOnDisk(directory: string, registry: Registry, edit: Edit): Promise<boolean> {
  const target = targetOf(edit.repository, edit.branch);
  const manifest = await readFile(join(directory, 'manifests', `${target}.json`), 'utf8');
  if (!manifest.includes(edit.commitId) && !edit.summary.startsWith('deleted')) return false;
  const { differences } = await compareAll(directory, registry);
  return !differences.some((line) => line.startsWith(`${edit.repository}, ${edit.branch}:`));
}

function targetOf(repository: string, branch: string): string {
  return `${repositoryPath(repository)}/${encodeSegment(branch)}`;
}

function compareAll(directory: string, registry: Registry): ReturnType<typeof compareWithGit> {
  return compareWithGit(registry, join(directory, 'mirror'), (repository, branch) =>
    targetOf(repository.full_name, branch),
  );
}

/** Compares the whole mirror with Git, byte for byte, and says what came of it. */
async function compare(settings: SettingsFor<'directory'>, registry: Registry): Promise<ExitCode> {
  const { targets, files, bytes, differences } = await compareAll(settings.directory, registry);
  if (differences.length > 0) {
    for (const difference of differences) tell(say`✗ ${difference}`);
    tell(say`The mirror differs from Git in ${counted(differences.length, 'place')}.`);
    return EXIT_CODES.incomplete;
  }
  printData(
    say`The mirror is identical to Git, byte for byte: ${counted(targets, 'branch', 'branches')}, ${counted(files, 'file')}, ${roughSize(bytes)}.`,
  );
  return EXIT_CODES.ok;
}

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Command } from 'commander';

import type { EventSink } from '../../app/events.ts';
import { type Mirror, openMirror } from '../../app/open-mirror.ts';
import { loadSettings } from '../../config/load.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { createStatusService } from '../../daemon/status/status-service.ts';
import { createProgressMonitor } from '../../daemon/supervision/progress-monitor.ts';
import { startHttp } from '../../daemon/web/server.ts';
import { withTemporaryFolder } from '../../lib/disk/temporary.ts';
import { EXIT_CODES, type ExitCode, MirrorError } from '../../lib/errors/errors.ts';
import { encodeSegment, repositoryPath } from '../../lib/paths/safe-path.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { standardOutput } from '../../lib/process/streams.ts';
import { counted, roughDuration, roughSize } from '../../lib/text/humanize.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { PullMonitor, type TargetPulled } from '../../mirror/pass/events.ts';
import { runPass } from '../../mirror/pass/pass.ts';
import { type Comparison, compareWithGit } from '../../server/demo/compare.ts';
import { createSamples } from '../../server/demo/samples.ts';
import { createWriter, type Edit } from '../../server/demo/writer.ts';
import { createGitLibrary } from '../../server/git/library.ts';
import type { Registry } from '../../server/git/repositories.ts';
import { fixedKey } from '../../server/keys/keys.ts';
import { createService } from '../../server/http/service.ts';
import { createProgress } from '../change/progress.ts';
import { bold, type Outcome, printData, tell } from '../frame/output.ts';

const POLL_EVERY_MS = 500;
const PASSES_BETWEEN_EDITS = 8;
const MIRRORED_WITHIN_PASSES = 60;

const KEY = 'demo-key-for-the-current-api';
const TOKEN = 'demo-token-for-v1';

type DemoSettings = SettingsFor<'service' | 'directory'>;

/**
 * `demo`: the embedded service with sample repositories, a writer that edits them, and a mirror of it, all in a temporary
 * folder that is removed at the end.
 */
export async function runDemo(command: Command): Promise<Outcome> {
  const { once = false }: { once?: boolean } = command.opts();
  return untilStopped((signal) => withTemporaryFolder('demo', (folder) => runIn(folder, once, signal)));
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

function demoSettings(baseUrl: string, directory: string): DemoSettings {
  const env = {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: baseUrl,
    WORKBOOK_MIRROR_SERVICE_API_KEY: KEY,
    WORKBOOK_MIRROR_SERVICE_API_TOKEN: TOKEN,
    WORKBOOK_MIRROR_DIRECTORY: directory,
    WORKBOOK_MIRROR_READER_GRACE: '1s',
    WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
  };
  return loadSettings({ flags: {}, env, needs: ['service', 'directory'], defaultConfigFile: '/nonexistent' })
    .settings;
}

/** Makes a first pass, then two passes a second while a writer edits. At the end, compares the mirror with Git. */
async function mirrorAndEdit(
  settings: DemoSettings,
  registry: Registry,
  once: boolean,
  signal: AbortSignal,
): Promise<ExitCode> {
  const monitor = new PullMonitor();
  const progress = createProgress([], monitor);
  const activity = createProgressMonitor(() => monitor.pulls().length > 0);
  const sinks: EventSink[] = [progress.sink];
  const emit: EventSink = (event) => {
    for (const sink of sinks) sink(event);
  };
  const mirror = await openMirror(settings, emit, {
    onProgress: activity.touch,
    reportFirstAccept: true,
    monitor,
  });
  const status = createStatusService(() => settings, mirror, activity);
  const http = await startHttp(() => settings, status, emit);
  const compare = (): Promise<Comparison> =>
    compareWithGit(registry, (repository, branch) =>
      join(settings.directory, 'mirror', repositoryPath(repository), encodeSegment(branch)),
    );
  try {
    sinks.push(status.sink, http.sink);
    await runPass(mirror.context, mirror.policy, 'start', signal);
    progress.close();
    let pulled: { readonly event: TargetPulled; readonly atMs: number } | undefined;
    sinks[0] = (event) => {
      if (event.name === 'target.pulled') pulled = { event, atMs: Date.now() };
      if (event.name.endsWith('failed')) progress.sink(event);
    };
    if (!once) tell(say`\nA writer now commits an edit every few seconds. Ctrl-C stops everything.\n`);
    const makeEdit = createWriter(registry);
    for (;;) {
      const edit = await makeEdit();
      let passes = 0;
      do {
        if (passes === MIRRORED_WITHIN_PASSES)
          throw new MirrorError('internal.defect', `The edit "${edit.summary}" came too late to the mirror.`);
        await nextPass(mirror, emit, signal);
        passes += 1;
      } while ((await compare()).differences.length > 0);
      if (pulled !== undefined) printData(describeEdit(edit, pulled.event, pulled.atMs));
      if (once) break;
      for (passes = 0; passes < PASSES_BETWEEN_EDITS; passes += 1) await nextPass(mirror, emit, signal);
    }
    return tellComparison(await compare());
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

/** Makes the next pass when it is due, and announces it to the status page. */
async function nextPass(mirror: Mirror, emit: EventSink, signal: AbortSignal): Promise<void> {
  emit({ name: 'daemon.scheduled', nextPassAtMs: Date.now() + POLL_EVERY_MS });
  await sleep(POLL_EVERY_MS, undefined, { signal });
  await runPass(mirror.context, mirror.policy, 'schedule', signal);
}

function describeEdit(edit: Edit, pulled: TargetPulled, readableAtMs: number): TerminalText {
  const files = counted(pulled.added + pulled.changed + pulled.removed, 'file');
  const latency = roughDuration(readableAtMs - edit.committedAt.getTime());
  return say`${bold(edit.summary, standardOutput)} in ${edit.repository}, ${edit.branch}: pulled ${roughSize(pulled.downloadedBytes)}, ${files} published (${pulled.method}), readable on disk ${latency} after the commit`;
}

function tellComparison({ targets, files, bytes, differences }: Comparison): ExitCode {
  for (const difference of differences) tell(say`✗ ${difference}`);
  if (differences.length > 0) return EXIT_CODES.incomplete;
  printData(
    say`The mirror is identical to Git, byte for byte: ${counted(targets, 'branch', 'branches')}, ${counted(files, 'file')}, ${roughSize(bytes)}.`,
  );
  return EXIT_CODES.ok;
}

import { lstat, stat } from 'node:fs/promises';

import type { EventSink } from '../app/events.ts';
import type { Mirror } from '../app/open-mirror.ts';
import { failedPass, passOutcome } from '../app/tasks/task.ts';
import { unlessMissing } from '../lib/errors/disk-errors.ts';
import { exitCodeOf, MirrorError, toMirrorError } from '../lib/errors/errors.ts';
import { eventFailure, type Trigger } from '../mirror/pass/events.ts';
import { type PassReport, runPass } from '../mirror/pass/pass.ts';
import type { Retries } from '../mirror/plan/actions.ts';
import { isOfCertificate } from '../mirror/upstream/failures.ts';
import type { PassRequests } from './control/pass-requests.ts';
import { createLoop, type Loop } from './loop.ts';
import type { LiveSettings } from './settings/live-settings.ts';
import type { ReadMirror } from './status/mirror-status.ts';
import { reportShare } from './status/share-report.ts';
import { isReady, type StatusService } from './status/status-service.ts';
import type { ProgressMonitor } from './supervision/progress-monitor.ts';
import type { Control } from './triggers/control.ts';

/** The parts of the daemon that the loop reports to. */
interface LoopContext {
  readonly control: Pick<Control, 'stop'>;
  readonly progress: Pick<ProgressMonitor, 'begin'>;
  readonly emit: EventSink;
}

/**
 * The loop of passes; each begins with the current settings.
 * @param requests passes that commands and programs asked for: the next pass answers them
 */
export function createPassLoop(
  { control, progress, emit }: LoopContext,
  mirror: Mirror,
  { check }: Pick<LiveSettings, 'check'>,
  status: StatusService,
  requests: PassRequests,
  afterPass: () => void,
): Loop {
  return createLoop(
    async (trigger, signal) => {
      const endWork = progress.begin();
      try {
        // Hints of changed files may get lost, so check the files: this pass must use the current settings.
        await check();
        await mirror.closeReplaced();
        const asked = requests.take();
        const how = { trigger, signal, retries: asked.retries };
        // After a pass that fails as a whole, the daemon waits for the next trigger; only a defect, and the loss of the directory, end it.
        const end = await makePass(mirror, status.readMirror, how).catch((error: unknown) => {
          const failure = toMirrorError(error);
          if (failure.code === 'internal.defect') throw error;
          return failure;
        });
        const isFailed = end instanceof MirrorError;
        if (asked.isAsked && !signal.aborted)
          asked.answer(isFailed ? failedPass(end) : passOutcome(end, await isReady(status)));
        if (isFailed && (await needsRestart(end, mirror))) control.stop(exitCodeOf(end));
      } finally {
        endWork();
      }
      afterPass();
    },
    (error) => {
      emit({ name: 'pass.failed', trigger: 'schedule', durationMs: 0, ...eventFailure(error) });
      control.stop(exitCodeOf(error));
    },
  );
}

/**
 * Whether only a new process can go on, which opens the directory again and rereads the files that this one read at its start.
 * If the disk is not mounted, the answer is no: a restart would begin a mirror below its mount point.
 */
async function needsRestart(failure: MirrorError, { store: { layout } }: Mirror): Promise<boolean> {
  if (failure.code === 'directory.replaced')
    return (await unlessMissing(lstat(layout.targetList)).catch(() => null)) !== null;
  if (isOfCertificate(failure)) return areAuthoritiesNew(process.env['NODE_EXTRA_CA_CERTS']);
  return failure.code === 'directory.taken' || failure.code === 'program.replaced';
}

/** Whether the file of additional authorities, which Node reads once, has changed since the start. */
async function areAuthoritiesNew(file: string | undefined): Promise<boolean> {
  const found = file === undefined ? null : await stat(file).catch(() => null);
  return found !== null && found.mtimeMs > Date.now() - process.uptime() * 1000;
}

/**
 * Makes a pass, and tells the instances that have other shares how it went.
 * @throws MirrorError if it fails as a whole
 */
export async function makePass(
  mirror: Mirror,
  readMirror: ReadMirror,
  how: {
    readonly trigger: Trigger;
    readonly signal: AbortSignal;
    readonly retries: Retries;
  },
): Promise<PassReport> {
  const { trigger, signal, retries } = how;
  try {
    const report = await runPass(mirror.context, mirror.policy, trigger, signal, retries);
    await mirror.rememberInstallation();
    await reportShare(readMirror, mirror, null);
    return report;
  } catch (error) {
    if (!signal.aborted) await reportShare(readMirror, mirror, error);
    throw error;
  }
}

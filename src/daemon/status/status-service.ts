import type { StatsFs } from 'node:fs';
import { statfs } from 'node:fs/promises';

import type { SettingsFor } from '../../config/schema.ts';
import type { ProgressMonitor } from '../supervision/progress-monitor.ts';
import { EVENT_LEVELS, type EventSink, type MirrorEvent } from '../../mirror/pass/events.ts';
import { type Liveness, livenessOf, readinessOf } from './readiness.ts';
import { NOT_LISTED, nextListed } from './listed.ts';
import { initialLive, type Live, nextLive } from './live.ts';
import type { DaemonReport, Notice } from './report.ts';
import type { Published } from '../../mirror/plan/targets.ts';
import { type StatusPolicy, statusOfTargets, type TargetStatus } from '../../mirror/plan/target-status.ts';
import { describeEvent } from '../log/messages.ts';
import { tolerateStateFailure } from '../../mirror/pass/state-failures.ts';
import type { Mirror } from '../start/open-mirror.ts';
import { statusPolicyOf } from '../start/open-reader.ts';
import { packageVersion } from '../../lib/process/version.ts';

/** What the daemon says of itself: status page, health, metrics and supervisor all ask here. */
export interface StatusService {
  /** Takes in what happens, without secrets. */
  readonly sink: EventSink;
  readonly live: () => Live;
  /** Whether the loop moves; looks at no disk. */
  readonly liveness: () => Liveness;
  readonly report: () => Promise<DaemonReport>;
  /** Whether something is under way whose progress is worth a look. */
  readonly isBusy: () => boolean;
}

/** How many warnings and errors are kept. */
const NOTICES_KEPT = 200;

/** While a pass works, the mirror is read anew at most so often, in milliseconds, and never for more than a tenth of the time. */
const LEAST_AGE_MS = 1000;
const REST_PER_READING = 10;

/** What comes seldom, and after which nothing may be told that is older. */
const READ_AT_ONCE: ReadonlySet<string> = new Set([
  'pass.finished',
  'pass.failed',
  'pass.abandoned',
  'target.drifted',
  'target.whole',
]);

/**
 * Makes the status of a daemon.
 * @param current the settings in force
 * @param progress tells whether the running work makes progress
 */
export function createStatusService(
  current: () => SettingsFor<'service' | 'directory'>,
  mirror: Pick<Mirror, 'store' | 'state' | 'monitor'>,
  progress: ProgressMonitor,
): StatusService {
  let live = initialLive(Date.now());
  let listed = NOT_LISTED;
  const notices: Notice[] = [];
  const read = createReading(mirror);
  const policyFor = remembered(statusPolicyOf);
  const sink: EventSink = (event) => {
    const nowMs = Date.now();
    live = nextLive(live, event, nowMs);
    listed = nextListed(listed, event);
    read.note(event);
    const notice = noticeOf(event, nowMs);
    if (notice !== null) notices.push(notice);
    notices.splice(0, notices.length - NOTICES_KEPT);
  };
  const liveness = (): Liveness =>
    livenessOf(
      { hasStarted: live.hasFinishedPass, isPassing: live.pass !== null, isStopping: live.isStopping },
      progress.idleMs(),
      current().stuckAfter,
    );
  const report = async (): Promise<DaemonReport> => {
    const settings = current();
    await read.refresh(listed.isListed);
    const nowMs = Date.now();
    const policy = policyFor(settings);
    const targets = read.targets(policy, nowMs);
    return {
      version: packageVersion(),
      service: settings.service.baseUrl,
      directory: settings.directory,
      schedule: settings.schedule,
      timezone: settings.timezone,
      nowMs,
      maxStalenessMs: policy.maxStalenessMs,
      canExchange: mirror.store.canExchange,
      readiness: readinessOf(targets, { ...listed, isListed: read.isListed() && listed.isListed }),
      liveness: liveness(),
      live,
      pulls: mirror.monitor.pulls(),
      scan: mirror.monitor.scan(),
      leases: await mirror.store.leases().catch(() => []),
      disk: await roomOf(settings.directory),
      targets,
      notices: [...notices],
    };
  };
  const isBusy = (): boolean => mirror.monitor.pulls().length > 0 || mirror.monitor.scan() !== null;
  return { sink, live: () => live, liveness, report, isBusy };
}

function noticeOf(event: MirrorEvent, atMs: number): Notice | null {
  const level = EVENT_LEVELS[event.name];
  if (level !== 'warn' && level !== 'error') return null;
  return { atMs, level, event: event.name, message: String(describeEvent(event)) };
}

/** Remembers what a function gave for the last argument: how long a schedule pauses at most is much to reckon. */
function remembered<A extends object, R>(reckon: (argument: A) => R): (argument: A) => R {
  let last: { readonly argument: A; readonly result: R } | null = null;
  return (argument) => {
    if (last?.argument !== argument) last = { argument, result: reckon(argument) };
    return last.result;
  };
}

/** What happened since the mirror was read: nothing, something that can wait a little, or something that cannot. */
type News = 'none' | 'some' | 'much';

/** What was read of the mirror. */
interface Reading {
  /** Notes what happened since. */
  readonly note: (event: MirrorEvent) => void;
  /**
   * Reads the mirror anew, if that is due, without taking the daemon's time for it.
   * @param isListed whether it is known which targets there are
   */
  readonly refresh: (isListed: boolean) => Promise<void>;
  /** Whether that was known already when the mirror was read: only then the targets that were read are all of them. */
  readonly isListed: () => boolean;
  readonly targets: (policy: StatusPolicy, nowMs: number) => TargetStatus[];
}

/** Keeps what status is judged from. */
function createReading({ store, state }: Pick<Mirror, 'store' | 'state'>): Reading {
  let published: readonly Published[] = [];
  let records: Awaited<ReturnType<typeof state.records>> = new Map();
  let drift: Awaited<ReturnType<typeof state.drift>> = {};
  let news: News = 'much';
  let isComplete = false;
  let readAtMs = Number.NEGATIVE_INFINITY;
  let tookMs = 0;
  const silent: EventSink = () => {};
  const isDue = (): boolean => {
    if (news !== 'some') return news === 'much';
    return performance.now() - readAtMs > Math.max(LEAST_AGE_MS, tookMs * REST_PER_READING);
  };
  const read = async (): Promise<boolean> => {
    const startMs = performance.now();
    published = await store.published();
    const nextRecords = await tolerateStateFailure(silent, state.records, null);
    const nextDrift = await tolerateStateFailure(silent, state.drift, null);
    records = nextRecords ?? records;
    drift = nextDrift ?? drift;
    readAtMs = performance.now();
    tookMs = readAtMs - startMs;
    // Without the records nobody knows of targets that were never mirrored.
    return nextRecords !== null && nextDrift !== null;
  };
  return {
    note: ({ name }) => {
      if (READ_AT_ONCE.has(name)) news = 'much';
      else if (news === 'none') news = 'some';
    },
    refresh: async (isListed) => {
      if (!isDue()) return;
      news = 'none';
      isComplete = false;
      try {
        isComplete = (await read()) && isListed;
      } catch (error) {
        // What was read before is no answer to who asks next.
        news = 'much';
        throw error;
      }
    },
    isListed: () => isComplete,
    targets: (policy, nowMs) => statusOfTargets(published, records, drift, policy, nowMs),
  };
}

/** Tells the room on a file system as df(1) does: what is kept for root is neither free nor part of the size. */
export function roomOn({
  bsize,
  blocks,
  bfree,
  bavail,
}: Pick<StatsFs, 'bsize' | 'blocks' | 'bfree' | 'bavail'>): NonNullable<DaemonReport['disk']> {
  return { sizeBytes: bsize * (blocks - bfree + bavail), freeBytes: bsize * bavail };
}

async function roomOf(directory: string): Promise<DaemonReport['disk']> {
  return statfs(directory).then(roomOn, () => null);
}

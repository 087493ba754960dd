import type { EventFailure } from '../../mirror/pass/events.ts';
import type { CredentialKind } from '../../mirror/upstream/keyring.ts';
import type { MirrorEvent } from '../../app/events.ts';
import type { Live, PassNote } from './status-schema.ts';

/** Number of passes kept in the history of passes. */
export const PASSES_KEPT = 300;

/** The state at the start of the daemon. */
export function initialLive(nowMs: number): Live {
  const unknown = { state: 'unknown', key: null, sinceMs: null, nextAttemptAtMs: null } as const;
  return {
    startedAtMs: nowMs,
    isStopping: false,
    pass: null,
    slow: [],
    passes: [],
    hasFinishedPass: false,
    nextPassAtMs: null,
    upstream: null,
    selection: null,
    credentials: { apiKey: unknown, apiToken: unknown },
    settings: { takenAtMs: nowMs, problem: null, restartNeeded: [] },
    http: { problem: null },
  };
}

/** The state after an event: a pure function of the state before. */
export function nextLive(live: Live, event: MirrorEvent, nowMs: number): Live {
  switch (event.name) {
    case 'daemon.scheduled':
      return { ...live, nextPassAtMs: event.nextPassAtMs };
    case 'daemon.stopping':
      return { ...live, isStopping: true };
    case 'listing.read': {
      const { repositories, workbooks, processing, failed } = event;
      return { ...live, upstream: { readAtMs: nowMs, repositories, workbooks, processing, failed } };
    }
    case 'selection.checked': {
      const { repositories, selected, unmatched } = event;
      return { ...live, selection: { repositories, selected, unmatched } };
    }
    case 'credentials.refused': {
      const { credential, nextAttemptAtMs } = event;
      const before = live.credentials[credential];
      const sinceMs = before.state === 'refused' ? before.sinceMs : nowMs;
      return withCredential(live, credential, { state: 'refused', key: null, sinceMs, nextAttemptAtMs });
    }
    case 'credentials.accepted':
      return withCredential(live, event.credential, {
        state: 'accepted',
        key: event.key,
        sinceMs: nowMs,
        nextAttemptAtMs: null,
      });
    case 'settings.reloaded':
      return { ...live, settings: { ...live.settings, takenAtMs: nowMs, problem: null } };
    case 'settings.refused':
      return { ...live, settings: { ...live.settings, problem: failureOf(event) } };
    case 'settings.restart_needed':
      return { ...live, settings: { ...live.settings, restartNeeded: event.settings } };
    case 'settings.restart_unneeded':
      return { ...live, settings: { ...live.settings, restartNeeded: [] } };
    case 'http.unavailable':
      return { ...live, http: { problem: failureOf(event) } };
    case 'http.listening':
      return { ...live, http: { problem: null } };
    default:
      return nextPass(live, event, nowMs);
  }
}

function nextPass(live: Live, event: MirrorEvent, nowMs: number): Live {
  const { pass } = live;
  switch (event.name) {
    case 'pass.started':
      return {
        ...live,
        pass: { trigger: event.trigger, startedAtMs: nowMs, planned: null, done: 0, pulling: [] },
      };
    case 'pass.planned': {
      const { pull, keep, hold, retire } = event;
      return pass === null ? live : { ...live, pass: { ...pass, planned: { pull, keep, hold, retire } } };
    }
    case 'target.started':
      return pass === null ? live : { ...live, pass: { ...pass, pulling: [...pass.pulling, event.target] } };
    case 'target.slow':
    case 'target.slow_ended':
      return nextSlow(live, event);
    case 'pass.finished': {
      const { name, trigger, durationMs, ...summary } = event;
      return { ...withPass(live, event, { result: 'finished', summary }, nowMs), hasFinishedPass: true };
    }
    case 'pass.failed':
      return withPass(live, event, { result: 'failed', failure: failureOf(event) }, nowMs);
    case 'pass.abandoned':
      return withPass(live, event, { result: 'abandoned' }, nowMs);
    default:
      return endsPull(event) ? withoutPull(live, event.target) : live;
  }
}

/** A slow pull counts as done in the pass that it belongs to, if it ends in time. */
function nextSlow(
  live: Live,
  event: Extract<MirrorEvent, { name: 'target.slow' | 'target.slow_ended' }>,
): Live {
  const { pass } = live;
  const isOther = ({ target }: Live['slow'][number]): boolean => target !== event.target;
  if (event.name === 'target.slow') {
    const { target, startedAtMs } = event;
    const pulling = pass?.pulling.filter((each) => each !== target) ?? [];
    const slow = [...live.slow.filter(isOther), { target, startedAtMs }];
    return { ...live, slow, pass: pass === null ? null : { ...pass, pulling } };
  }
  const ended = live.slow.find(({ target }) => target === event.target);
  const slow = live.slow.filter(isOther);
  if (pass === null || ended === undefined || ended.startedAtMs < pass.startedAtMs) return { ...live, slow };
  return { ...live, slow, pass: { ...pass, done: pass.done + 1 } };
}

/** The possible ends of a pull. */
const PULL_ENDS = [
  'target.pulled',
  'target.failed',
  'target.absent',
  'target.missing',
  'target.held',
  'target.retired',
  'deletion.held',
] as const;

type PullEnd = Extract<MirrorEvent, { name: (typeof PULL_ENDS)[number] }>;

/** Whether an event ends the pull of its target, if there is one. */
export function endsPull(event: MirrorEvent): event is PullEnd {
  return PULL_ENDS.some((name) => name === event.name);
}

function withoutPull(live: Live, target: string): Live {
  const { pass } = live;
  if (pass === null || !pass.pulling.includes(target)) return live;
  const pulling = pass.pulling.filter((each) => each !== target);
  return { ...live, pass: { ...pass, pulling, done: pass.done + 1 } };
}

function withPass(
  live: Live,
  { trigger, durationMs }: Pick<PassNote, 'trigger' | 'durationMs'>,
  { result, summary = null, failure = null }: Pick<PassNote, 'result'> & Partial<PassNote>,
  nowMs: number,
): Live {
  const startedAtMs = live.pass?.startedAtMs ?? nowMs - durationMs;
  const note = { trigger, durationMs, result, summary, failure, startedAtMs };
  return { ...live, pass: null, passes: [...live.passes, note].slice(-PASSES_KEPT) };
}

function withCredential(
  live: Live,
  credential: CredentialKind,
  state: Live['credentials'][CredentialKind],
): Live {
  return { ...live, credentials: { ...live.credentials, [credential]: state } };
}

function failureOf({ code, message, hint }: EventFailure): EventFailure {
  return { code, message, hint };
}

import type { EventFailure } from '../../mirror/pass/events.ts';
import { type EventTable, forEvent, type MirrorEvent } from '../../app/events.ts';
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
    listed: { isKnown: false, isWhole: false, isOutdated: false },
    nextPassAtMs: null,
    upstream: null,
    selection: null,
    credentials: { apiKey: unknown, apiToken: unknown },
    settings: { takenAtMs: nowMs, problem: null, restartNeeded: [] },
    http: { problem: null },
  };
}

/** Settings whose change may add targets that the last pass did not see. */
const SELECTING = /^(?:service\.baseUrl|targets|repositories\.|branches\.)/;

/** The parts of the state that each event changes. */
const CHANGES: EventTable<[live: Live, nowMs: number], Partial<Live>> = {
  'daemon.scheduled': ({ nextPassAtMs }) => ({ nextPassAtMs }),
  'daemon.stopping': () => ({ isStopping: true }),
  'listing.read': ({ isWhole, repositories, workbooks, processing, failed }, { listed }, nowMs) => ({
    upstream: { readAtMs: nowMs, repositories, workbooks, processing, failed },
    listed: { ...listed, isWhole },
  }),
  'selection.checked': ({ repositories, selected, unmatched }) => ({
    selection: { repositories, selected, unmatched },
  }),
  'credentials.refused': ({ credential, nextAttemptAtMs }, { credentials }, nowMs) => {
    const before = credentials[credential];
    const sinceMs = before.state === 'refused' ? before.sinceMs : nowMs;
    const after = { state: 'refused', key: null, sinceMs, nextAttemptAtMs } as const;
    return { credentials: { ...credentials, [credential]: after } };
  },
  'credentials.accepted': ({ credential, key }, { credentials }, nowMs) => {
    const after = { state: 'accepted', key, sinceMs: nowMs, nextAttemptAtMs: null } as const;
    return { credentials: { ...credentials, [credential]: after } };
  },
  'settings.reloaded': ({ changed }, live, nowMs) => ({
    settings: { ...live.settings, takenAtMs: nowMs, problem: null },
    ...(changed.some((name) => SELECTING.test(name)) ? outdated(live) : {}),
  }),
  // The records of passes in between are missing: a target that failed there would look fresh.
  'state.failed': (_event, live) => outdated(live),
  'state.recovered': (_event, live) => outdated(live),
  'settings.refused': (event, { settings }) => ({ settings: { ...settings, problem: failureOf(event) } }),
  'settings.restart_needed': restartNeeded,
  'settings.restart_unneeded': restartNeeded,
  'http.unavailable': (event) => ({ http: { problem: failureOf(event) } }),
  'http.listening': () => ({ http: { problem: null } }),
  'pass.started': ({ trigger }, { listed }, nowMs) => ({
    listed: { ...listed, isWhole: false, isOutdated: false },
    pass: { trigger, startedAtMs: nowMs, planned: null, done: 0, pulling: [] },
  }),
  'pass.planned': ({ pull, keep, hold, retire }, { pass }) => ({
    pass: pass && { ...pass, planned: { pull, keep, hold, retire } },
  }),
  'target.started': ({ target }, { pass }) => ({
    pass: pass && { ...pass, pulling: [...pass.pulling, target] },
  }),
  'target.slow': ({ target, startedAtMs }, { slow, pass }) => ({
    slow: [...without(slow, target), { target, startedAtMs }],
    pass: pass && { ...pass, pulling: pass.pulling.filter((each) => each !== target) },
  }),
  'target.pulled': pullEnded,
  'target.failed': pullEnded,
  'target.absent': pullEnded,
  'target.missing': pullEnded,
  'target.held': pullEnded,
  'target.retired': pullEnded,
  'deletion.held': pullEnded,
  // It counts as done in the pass that it belongs to, if it ends in time.
  'target.slow_ended': ({ target }, { slow, pass }) => {
    const ended = slow.find((each) => each.target === target);
    const isOfPass = pass !== null && ended !== undefined && ended.startedAtMs >= pass.startedAtMs;
    return { slow: without(slow, target), pass: isOfPass ? { ...pass, done: pass.done + 1 } : pass };
  },
  'pass.finished': ({ name, trigger, durationMs, ...summary }, live, nowMs) => ({
    ...endOfPass(live, nowMs, { trigger, durationMs, result: 'finished', summary }),
    hasFinishedPass: true,
    listed: live.listed.isOutdated ? live.listed : { ...live.listed, isKnown: live.listed.isWhole },
  }),
  'pass.failed': ({ trigger, durationMs, ...failure }, live, nowMs) => ({
    ...endOfPass(live, nowMs, { trigger, durationMs, result: 'failed', failure: failureOf(failure) }),
    // The mirrored data came from another service.
    ...(failure.code === 'directory.other_service' ? { listed: { ...live.listed, isKnown: false } } : {}),
  }),
  'pass.abandoned': ({ trigger, durationMs }, live, nowMs) =>
    endOfPass(live, nowMs, { trigger, durationMs, result: 'abandoned' }),
};

/** The state after an event: a pure function of the state before. */
export function nextLive(live: Live, event: MirrorEvent, nowMs: number): Live {
  const change = forEvent(CHANGES, event, live, nowMs);
  return change === undefined ? live : { ...live, ...change };
}

/** The change by an event that ends the pull of its target, if the pass has one. */
function pullEnded({ target }: { readonly target: string }, { pass }: Live): Partial<Live> {
  if (pass?.pulling.includes(target) !== true) return {};
  const pulling = pass.pulling.filter((each) => each !== target);
  return { pass: { ...pass, pulling, done: pass.done + 1 } };
}

function without(slow: Live['slow'], target: string): Live['slow'] {
  return slow.filter((each) => each.target !== target);
}

function outdated({ listed }: Live): Partial<Live> {
  return { listed: { ...listed, isKnown: false, isOutdated: true } };
}

function restartNeeded(event: { readonly settings: readonly string[] }, { settings }: Live): Partial<Live> {
  return { settings: { ...settings, restartNeeded: event.settings } };
}

function endOfPass(
  { pass, passes }: Live,
  nowMs: number,
  end: Pick<PassNote, 'trigger' | 'durationMs' | 'result'> & Partial<PassNote>,
): Partial<Live> {
  const startedAtMs = pass?.startedAtMs ?? nowMs - end.durationMs;
  const note = { startedAtMs, summary: null, failure: null, ...end };
  return { pass: null, passes: [...passes, note].slice(-PASSES_KEPT) };
}

function failureOf({ code, message, hint }: EventFailure): EventFailure {
  return { code, message, hint };
}

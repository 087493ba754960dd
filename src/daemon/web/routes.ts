import { shareWork, waitAtMost } from '../../lib/concurrency/shared-work.ts';
import type { PageFiles } from '../../lib/http/page-files.ts';
import { type BufferedBody, packableBody, type Reply, type ReplyHeaders } from '../../lib/http/reply.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { type DaemonReport, type ReportWithoutChanges, statusJsonSchema } from '../status/status-schema.ts';
import type { StatusService } from '../status/status-service.ts';

/** The reply of a path. */
interface Route {
  /** Whether it is answered without the token; then it is short, and always answered. */
  readonly isPublic: boolean;
  /** @param mayName whether it may name targets */
  readonly reply: (mayName: boolean) => Promise<Reply> | Reply;
}

/** The replies of all paths. */
export type Routes = ReadonlyMap<string, Route>;

/** Timeout of a report, in milliseconds. */
const LONGEST_WAIT_MS = 10_000;

/** Makes the table of paths. @param renderMetrics writes the metrics of the same report as the other replies */
export function createRoutes(
  page: PageFiles,
  { report, changes, liveness }: Pick<StatusService, 'report' | 'changes' | 'liveness'>,
  renderMetrics: Metrics['render'],
): Routes {
  const schema = JSON.stringify(statusJsonSchema());
  // Requests at the same time share one content.
  const metrics = shareWork(async () => {
    const { contentType, text } = await renderMetrics(await report());
    return found(packableBody(contentType, text));
  });
  const status = shareWork(async () => {
    const known = await report();
    return found(statusBody({ ...known, changes: await changes(known.targets) }));
  });
  const inTime =
    (make: (mayName: boolean) => Promise<Reply>): Route['reply'] =>
    async (mayName) =>
      (await waitAtMost(make(mayName), LONGEST_WAIT_MS)) ??
      refusal(503, 'The state of the mirror is not available in time: its disk may hang.');
  const pages = [...page].map(([name, content]) => [`/page/${name}`, fixed(content)] as const);
  return new Map<string, Route>([
    ...pages,
    ...pages.filter(([path]) => path === '/page/index.html').map(([, route]) => ['/', route] as const),
    ['/api/schema', fixed(packableBody('application/schema+json', schema, schema))],
    // Without reading the disk, which may hang or be slow.
    ['/healthz', { isPublic: true, reply: () => livenessReply(liveness()) }],
    [
      '/readyz',
      { isPublic: true, reply: inTime(async (mayName) => readinessReply(await report(), mayName)) },
    ],
    ['/metrics', { isPublic: false, reply: inTime(metrics) }],
    ['/api/status', { isPublic: false, reply: inTime(status) }],
  ]);
}

/** In the text format of Prometheus, version 0.0.4. */
const STANDBY_METRICS = packableBody(
  'text/plain; version=0.0.4; charset=utf-8',
  '# HELP workbook_mirror_standby 1 while this instance waits for another one to end, else 0.\n' +
    '# TYPE workbook_mirror_standby gauge\n' +
    'workbook_mirror_standby 1\n',
);

/** The paths of an instance on standby, which is healthy but not ready. @param reason gives a sentence with the reason for waiting */
export function standbyRoutes(reason: () => string): Routes {
  const unavailable: Route = {
    isPublic: false,
    reply: () => refusal(503, `This instance is on standby. ${reason()}`, { 'retry-after': '5' }),
  };
  const alive = json({ alive: true, state: 'standby', silentMs: 0 });
  const notReady = (mayName: boolean): BufferedBody =>
    json({ ready: false, standby: true, ...(mayName ? { reason: reason() } : {}) });
  return new Map<string, Route>([
    ['/', unavailable],
    ['/api/status', unavailable],
    ['/healthz', { isPublic: true, reply: () => found(alive) }],
    ['/readyz', { isPublic: true, reply: (mayName) => ({ ...found(notReady(mayName)), status: 503 }) }],
    ['/metrics', { isPublic: false, reply: () => found(STANDBY_METRICS) }],
  ]);
}

/** A file of the page, or something else that never changes. */
function fixed(content: BufferedBody): Route {
  return { isPublic: false, reply: () => found(content, { 'cache-control': 'no-cache' }) };
}

function found(body: BufferedBody, headers: ReplyHeaders = {}): Reply {
  return { status: 200, headers, body };
}

/** A refusal, with one line for people. */
export function refusal(status: number, line: string, headers: ReplyHeaders = {}): Reply {
  return { status, headers, body: packableBody('text/plain; charset=utf-8', `${line}\n`) };
}

/** The reply of `/healthz`: 200 while the daemon makes progress, and nothing else about the mirror. */
function livenessReply({ isAlive, state, silentMs }: DaemonReport['liveness']): Reply {
  return { status: isAlive ? 200 : 503, headers: {}, body: json({ alive: isAlive, state, silentMs }) };
}

/** Most targets that `/readyz` names. */
const MOST_NAMED = 100;

/** The reply of `/readyz`: 200 while the mirror is up to date with the service. @param mayName whether it may name targets */
function readinessReply({ readiness, shard }: ReportWithoutChanges, mayName: boolean): Reply {
  const { isReady, isListed, selectsNothing, stateProblem, notReady } = readiness;
  const named = notReady.slice(0, MOST_NAMED).map(({ target, reason, verifiedAtMs }) => {
    // JSON has null for a time out of range, which a wrong clock or disk may give.
    return { target, reason, verifiedAt: verifiedAtMs === null ? null : new Date(verifiedAtMs) };
  });
  const body = json({
    ready: isReady,
    ...(shard === null ? {} : { shard }),
    listed: isListed,
    ...(selectsNothing ? { selectsNothing } : {}),
    notReadyCount: notReady.length,
    ...(mayName && stateProblem !== null ? { reason: stateProblem } : {}),
    ...(mayName ? { notReady: named } : {}),
  });
  return { status: isReady ? 200 : 503, headers: {}, body };
}

/** The content of `/api/status`. Its tag stays the same while only the clock changes. */
export function statusBody(report: DaemonReport): BufferedBody {
  const still = { ...report, nowMs: 0, liveness: { ...report.liveness, silentMs: 0 } };
  return json(report, JSON.stringify(still));
}

/** Data as JSON. @param mark source of its tag; null for no tag */
function json(value: unknown, mark: string | null = null): BufferedBody {
  return packableBody('application/json; charset=utf-8', JSON.stringify(value), mark);
}

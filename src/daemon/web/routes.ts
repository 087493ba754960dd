import { type BufferedBody, packableBody } from '../../lib/http/buffered-body.ts';
import type { PageFiles } from '../../lib/http/page-files.ts';
import type { Reply, ReplyHeaders } from '../../lib/http/reply.ts';
import { waitAtMost } from '../../lib/concurrency/shared-work.ts';
import type { Liveness } from '../status/readiness.ts';
import type { DaemonReport } from '../status/report.ts';
import { livenessReply, readinessReply, refusal, statusBody } from './replies.ts';
import { statusJsonSchema } from './status-schema.ts';

/** Text in the format of a scraper. */
export interface RenderedMetrics {
  readonly contentType: string;
  readonly text: string;
}

/** The data of the replies. */
export interface Sources {
  readonly report: () => Promise<DaemonReport>;
  /** Answers at once, also while the disk hangs. */
  readonly liveness: () => Liveness;
  /** Writes the metrics for the same report that the other replies are made from. */
  readonly renderMetrics: (report: DaemonReport) => Promise<RenderedMetrics>;
}

/** The reply of a path. */
export interface Route {
  /** Whether it is answered without the token; then it is short, and answered whatever else goes on. */
  readonly isPublic: boolean;
  /** @param mayName whether names of targets may be told */
  readonly reply: (mayName: boolean) => Promise<Reply> | Reply;
}

/** A report that takes longer, in milliseconds, is not waited for. */
const LONGEST_WAIT_MS = 10_000;

/**
 * Makes the table of paths.
 * @param onReply called when a reply was made from a report
 */
export function createRoutes(
  page: PageFiles,
  { report, liveness, renderMetrics }: Sources,
  onReply: () => void,
): ReadonlyMap<string, Route> {
  const schema = JSON.stringify(statusJsonSchema());
  // Requests at the same time share one report, and so one content.
  const metrics = oncePerReport(async (report) => {
    const { contentType, text } = await renderMetrics(report);
    return packableBody(contentType, text);
  });
  const status = oncePerReport(statusBody);
  const fromReport =
    (make: (report: DaemonReport, mayName: boolean) => Promise<Reply> | Reply): Route['reply'] =>
    async (mayName) => {
      const made = await waitAtMost(report(), LONGEST_WAIT_MS);
      if (made === null)
        return refusal(503, 'The state of the mirror cannot be told in time: its disk may hang.');
      const reply = await make(made, mayName);
      onReply();
      return reply;
    };
  const pages = [...page].map(([name, content]) => [`/page/${name}`, fixed(content)] as const);
  return new Map<string, Route>([
    ...pages,
    ...pages.filter(([path]) => path === '/page/index.html').map(([, route]) => ['/', route] as const),
    ['/api/schema', fixed(packableBody('application/schema+json', schema, schema))],
    // Without a look at the disk, which may hang or be slow.
    ['/healthz', { isPublic: true, reply: () => livenessReply(liveness()) }],
    ['/readyz', { isPublic: true, reply: fromReport(readinessReply) }],
    ['/metrics', { isPublic: false, reply: fromReport(async (report) => found(await metrics(report))) }],
    ['/api/status', { isPublic: false, reply: fromReport((report) => found(status(report))) }],
  ]);
}

/** A file of the page, or something else that never changes. */
function fixed(content: BufferedBody): Route {
  return { isPublic: false, reply: () => found(content, { 'cache-control': 'no-cache' }) };
}

function found(body: BufferedBody, headers: ReplyHeaders = {}): Reply {
  return { status: 200, headers, body };
}

function oncePerReport<Result>(make: (report: DaemonReport) => Result): (report: DaemonReport) => Result {
  const made = new WeakMap<DaemonReport, { readonly result: Result }>();
  return (report) => {
    const known = made.get(report) ?? { result: make(report) };
    made.set(report, known);
    return known.result;
  };
}

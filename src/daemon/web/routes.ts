import type { DaemonReport } from '../status/report.ts';
import { type Body, createBody } from './body.ts';
import { readinessAnswer } from './health.ts';
import type { Answer } from './send.ts';
import { statusBody } from './status.ts';
import { statusJsonSchema } from './status-schema.ts';

/** Text in the format of a scraper. */
export interface RenderedMetrics {
  readonly contentType: string;
  readonly text: string;
}

/** What stands at a path. */
export type Route =
  /** A file of the page, or something else that never changes. */
  | { readonly kind: 'fixed'; readonly body: Body }
  | { readonly kind: 'events' }
  /** Whether the loop moves: answered without looking at the disk, which may hang or be slow, and without the token. */
  | { readonly kind: 'liveness' }
  | {
      readonly kind: 'report';
      /** Whether it is answered without the token. */
      readonly isPublic: boolean;
      /** @param mayName whether names of targets may be told */
      readonly answer: (report: DaemonReport, mayName: boolean) => Promise<Answer> | Answer;
    };

/**
 * Makes the table of paths.
 * @param assets the files of the page, by their paths
 */
export function createRoutes(
  assets: ReadonlyMap<string, Body>,
  renderMetrics: (report: DaemonReport) => Promise<RenderedMetrics>,
): ReadonlyMap<string, Route> {
  const schema = JSON.stringify(statusJsonSchema());
  // Those who come together are given one report, and so one body.
  const metrics = oncePerReport(async (report) => {
    const { contentType, text } = await renderMetrics(report);
    return createBody(contentType, text);
  });
  const status = oncePerReport(statusBody);
  const pages = [...assets].map(([path, body]): [string, Route] => [path, { kind: 'fixed', body }]);
  return new Map<string, Route>([
    ...pages,
    ['/api/schema', { kind: 'fixed', body: createBody('application/schema+json', schema, schema) }],
    ['/api/events', { kind: 'events' }],
    ['/healthz', { kind: 'liveness' }],
    [
      '/readyz',
      {
        kind: 'report',
        isPublic: true,
        answer: ({ readiness }, mayName) => readinessAnswer(readiness, mayName),
      },
    ],
    ['/metrics', { kind: 'report', isPublic: false, answer: async (report) => found(await metrics(report)) }],
    ['/api/status', { kind: 'report', isPublic: false, answer: (report) => found(status(report)) }],
  ]);
}

function found(body: Body): Answer {
  return { status: 200, headers: {}, body };
}

function oncePerReport<Result>(make: (report: DaemonReport) => Result): (report: DaemonReport) => Result {
  const made = new WeakMap<DaemonReport, { readonly result: Result }>();
  return (report) => {
    const known = made.get(report) ?? { result: make(report) };
    made.set(report, known);
    return known.result;
  };
}

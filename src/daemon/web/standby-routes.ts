import { packableBody } from '../../lib/http/buffered-body.ts';
import type { Reply } from '../../lib/http/reply.ts';
import { refusal } from './replies.ts';
import type { Route } from './routes.ts';

/** In the text format of Prometheus, version 0.0.4. */
const METRICS =
  '# HELP workbook_mirror_standby 1 while this instance waits for another one to be gone, else 0.\n' +
  '# TYPE workbook_mirror_standby gauge\n' +
  'workbook_mirror_standby 1\n';

/** The paths of an instance that stands by. @param reason gives a sentence that says what it waits for */
export function standbyRoutes(reason: () => string): ReadonlyMap<string, Route> {
  const metrics = packableBody('text/plain; version=0.0.4; charset=utf-8', METRICS);
  const unavailable: Route = {
    isPublic: false,
    reply: () => refusal(503, `This instance stands by. ${reason()}`, { 'retry-after': '5' }),
  };
  return new Map<string, Route>([
    ['/', unavailable],
    ['/api/status', unavailable],
    ['/healthz', { isPublic: true, reply: () => json(200, { alive: true, state: 'standby', silentMs: 0 }) }],
    [
      '/readyz',
      {
        isPublic: true,
        reply: (mayName) =>
          json(503, { ready: false, standby: true, ...(mayName ? { reason: reason() } : {}) }),
      },
    ],
    ['/metrics', { isPublic: false, reply: () => ({ status: 200, headers: {}, body: metrics }) }],
  ]);
}

function json(status: number, value: unknown): Reply {
  return {
    status,
    headers: {},
    body: packableBody('application/json; charset=utf-8', JSON.stringify(value)),
  };
}

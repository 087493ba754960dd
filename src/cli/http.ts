import type { SettingsFor } from '../config/schema.ts';
import type { EventSink } from '../model/events.ts';
import { createMetrics } from '../observe/metrics.ts';
import { isLoopback } from '../web/access.ts';
import { createWebServer } from '../web/server.ts';
import type { Board } from './board.ts';
import { STATUS_PAGE_FOLDERS } from './pages.ts';

/** Status page, health and metrics, served. */
export interface HttpSide {
  /** Takes in what happens, after the board has. */
  readonly sink: EventSink;
  readonly close: () => Promise<void>;
}

/**
 * Serves what the board says, where `http.listen` says, if it does.
 * @throws MirrorError `http.unusable`
 */
export async function startHttp(
  current: () => SettingsFor<never>,
  board: Board,
  emit: EventSink,
): Promise<HttpSide> {
  const { listen } = current().http;
  if (listen === null) return { sink: () => {}, close: () => Promise.resolve() };
  const metrics = createMetrics();
  const server = createWebServer({
    report: board.report,
    liveness: board.liveness,
    renderMetrics: metrics.render,
    token: () => current().http.token?.reveal() ?? null,
    allowedHosts: () => current().http.allowedHosts,
    pageFolders: STATUS_PAGE_FOLDERS,
    now: () => performance.now(),
    emit,
  });
  const { address } = await server.listen(listen);
  emit({ name: 'http.listening', address });
  if (current().http.token === undefined && !isLoopback(listen.host) && listen.host !== 'localhost')
    emit({ name: 'http.unprotected', address });
  return {
    sink: (event) => {
      metrics.sink(event);
      server.notify();
    },
    close: server.close,
  };
}

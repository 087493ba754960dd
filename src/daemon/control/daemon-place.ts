import type { EventSink } from '../../app/events.ts';
import type { Mirror } from '../../app/open-mirror.ts';
import type { LiveStatus, TaskPlace } from '../../app/tasks/task.ts';
import type { SettingsFor } from '../../config/schema.ts';
import type { Loop } from '../loop.ts';
import type { StatusService } from '../status/status-service.ts';
import { startControlSocket } from './control-socket.ts';
import type { PassRequests } from './pass-requests.ts';
import { createTaskRoutes } from './task-routes.ts';

/** The parts of the daemon that tasks use. */
interface DaemonParts {
  readonly current: () => SettingsFor<'service' | 'directory'>;
  readonly secrets: () => readonly string[];
  readonly mirror: Mirror;
  readonly status: StatusService;
  readonly requests: PassRequests;
  readonly loop: Loop;
}

/**
 * Carries out the tasks of commands, which arrive on the control socket.
 * @returns functions that end this, and that receive the events for commands that wait for a pass
 */
export async function listenToCommands(
  { current, secrets, mirror, status, requests, loop }: DaemonParts,
  emit: EventSink,
): Promise<{ readonly sink: EventSink; readonly close: () => Promise<void> }> {
  const watchers = new Set<EventSink>();
  const place: TaskPlace = {
    settings: { ofDirectory: current, ofService: current, ofMirror: current },
    isDaemon: true,
    makePass: async (targets, emit) => {
      const outcome = requests.add(targets);
      loop.ask();
      watchers.add(emit);
      return outcome.finally(() => watchers.delete(emit));
    },
    live: () => liveStatus(status, mirror),
    whileIdle: (work) =>
      loop.between(async () => {
        // The next pass decides about waiting pulls, and may be a day away.
        const waiting = mirror.context.queue.clear();
        try {
          const { store, state, context } = mirror;
          const isPulling = (path: string): boolean =>
            [...context.queue.running().values()].some(({ action }) => action.path === path);
          return await work({ emit: context.emit, store, state, isPulling });
        } finally {
          if (waiting > 0) loop.ask();
        }
      }),
  };
  const routes = createTaskRoutes(place, secrets);
  const close = await startControlSocket(mirror.store.layout, routes, emit);
  return {
    close,
    sink: (event) => {
      for (const watch of watchers) watch(event);
    },
  };
}

async function liveStatus({ live, readMirror }: StatusService, { monitor }: Mirror): Promise<LiveStatus> {
  const { isReady, isListed, stateProblem } = (await readMirror()).readiness;
  const { pass, nextPassAtMs } = live();
  const planned = pass?.planned?.pull ?? null;
  return {
    isReady,
    isListed,
    stateProblem,
    pass: pass && { trigger: pass.trigger, startedAtMs: pass.startedAtMs, planned, done: pass.done },
    pulls: monitor.pulls(),
    scan: monitor.scan(),
    nextPassAtMs,
  };
}

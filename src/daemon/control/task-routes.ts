import type { IncomingMessage, ServerResponse } from 'node:http';

import { routeOf, type ReplyLine } from '../../app/control.ts';
import type { MirrorEvent } from '../../app/events.ts';
import { REQUESTS } from '../../app/tasks/requests.ts';
import { isTaskName, runTask, type TaskName, TASKS } from '../../app/tasks/table.ts';
import type { TaskPlace } from '../../app/tasks/task.ts';
import { joinSignals, Places } from '../../lib/concurrency/concurrency.ts';
import { toMirrorError } from '../../lib/errors/errors.ts';
import { sendReply } from '../../lib/http/reply.ts';
import { bodyOf, readJson, RequestError } from '../../lib/http/request.ts';
import { ownFlags } from '../../lib/text/own-command.ts';
import { scrubbed } from '../../lib/text/scrub.ts';
import { refusal } from '../web/routes.ts';

/** The longest body of a request, in bytes: names of some thousand targets. */
const LONGEST_BODY_BYTES = 1024 * 1024;

/** Most tasks at a time that use the service or read the disk; others wait for them. */
const MOST_TASKS = 8;

/** If a command leaves this many bytes unread, further progress is skipped. */
const MOST_UNREAD_BYTES = 1024 * 1024;

/** Interval of progress reports to a command, in milliseconds. */
const TEXT_EVERY_MS = 100;

/** How long a command may take to read the end of a reply, in milliseconds: unread data stays in memory. */
const READING_TIMEOUT_MS = 30_000;

/**
 * The routes of the control socket: one for each task of the table.
 * @param secrets gives the secrets, which are masked in everything sent to a command
 * @returns `answer` answers a request: an error in plain text, or a task line by line; `close` abandons the tasks
 */
export function createTaskRoutes(place: TaskPlace, secrets: () => readonly string[]) {
  const closing = new AbortController();
  const places = new Places(MOST_TASKS);
  const carryOut = async (name: TaskName, wish: unknown, response: ServerResponse): Promise<void> => {
    const { kind } = TASKS[name];
    const { send, ...progress } = beginReply(response, secrets);
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const { signal, leave } = joinSignals(closing.signal, kind === 'read' ? gone.signal : closing.signal);
    // Other tasks wait for a pass, or report known data.
    const isHeavy = kind !== 'pass' && name !== 'status';
    let leavePlace = (): void => {};
    try {
      if (isHeavy) leavePlace = await places.take(signal);
      send({ result: await runTask(name, { ...place, ...progress, signal }, wish) });
    } catch (error) {
      const { code, lines, hint } = toMirrorError(error);
      send({ error: { code, lines, hint: hint ?? null, flags: ownFlags() } });
    } finally {
      leavePlace();
      leave();
    }
    response.end();
    const timer = setTimeout(() => response.destroy(), READING_TIMEOUT_MS).unref();
    response.once('close', () => clearTimeout(timer));
  };
  return {
    answer: async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      try {
        const { name, wish } = await taskIn(request);
        await carryOut(name, wish, response);
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        await sendReply(request, response, refusal(error.status, error.message));
      }
    },
    close: (): void => closing.abort(),
  };
}

/** @throws RequestError */
async function taskIn(
  request: IncomingMessage,
): Promise<{ readonly name: TaskName; readonly wish: unknown }> {
  const name = request.url?.replace(routeOf(''), '') ?? '';
  if (!isTaskName(name)) {
    const routes = Object.keys(TASKS).map(routeOf).join(', ');
    throw new RequestError(404, 'not_found', `There is nothing here. The routes are ${routes}.`);
  }
  if (request.method !== 'POST') throw new RequestError(405, 'method', 'Only POST is answered here.');
  const wish = await readJson(bodyOf(request), LONGEST_BODY_BYTES);
  const checked = REQUESTS[name].safeParse(wish);
  if (checked.success) return { name, wish };
  const message = checked.error.issues[0]?.message ?? '';
  throw new RequestError(400, 'invalid', `The request is not understood: ${message}`);
}

/** Sends the head, which confirms that the task is accepted. @returns functions that send its lines; progress may be skipped */
function beginReply(response: ServerResponse, secrets: () => readonly string[]) {
  response.writeHead(200, { 'content-type': 'application/x-ndjson' }).flushHeaders();
  const send = (line: ReplyLine<unknown>): void => {
    if (!response.destroyed) response.write(`${JSON.stringify(scrubbed(line, secrets()))}\n`);
  };
  const isRead = (): boolean => response.writableLength <= MOST_UNREAD_BYTES;
  let nextTextMs = 0;
  return {
    send,
    emit: (event: MirrorEvent): void => {
      if (isRead()) send({ event });
    },
    tell: (text: string): void => {
      if (!isRead() || performance.now() < nextTextMs) return;
      nextTextMs = performance.now() + TEXT_EVERY_MS;
      send({ text });
    },
  };
}

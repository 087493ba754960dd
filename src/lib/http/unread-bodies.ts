import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';

/**
 * How much of a body comes in after its request was answered without it, in bytes, and for how long, in milliseconds. A client that
 * sends all of it before it looks at the answer gets that within these bounds.
 */
const MOST_BYTES = 1024 * 1024;
const MOST_MS = 5000;
const LOOK_EVERY_MS = 100;

/**
 * Bounds what is sent of bodies that nobody reads, as of requests that were refused: Node takes all that comes, for as long as a
 * request may take.
 * @param server one that answers nothing yet
 */
export function cutUnreadBodies(server: Server): void {
  server.on('request', (request, response) => {
    // A request that is over may have no socket any more.
    const { socket } = request;
    response.once('finish', () => {
      if (!request.complete) cutWhenTooMuch(request, socket);
    });
  });
}

function cutWhenTooMuch(request: IncomingMessage, socket: Socket): void {
  const beganBytes = socket.bytesRead;
  let looks = 0;
  const timer = setInterval(() => {
    looks += 1;
    const isEnded = request.complete || socket.destroyed;
    const isTooMuch = socket.bytesRead - beganBytes > MOST_BYTES || looks * LOOK_EVERY_MS >= MOST_MS;
    if (isEnded || isTooMuch) clearInterval(timer);
    if (!isEnded && isTooMuch) socket.destroy();
  }, LOOK_EVERY_MS);
  timer.unref();
}

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** A client that sends bytes as they are, also such as no HTTP library would. */
export interface RawClient {
  /** Sends a request and waits for its answer. @returns the status code; 0 where the connection was cut before one came */
  readonly ask: (request: string | Buffer) => Promise<number>;
  readonly close: () => void;
}

/** The end of an answer in some bytes; null where it is not there yet. */
function endOf(bytes: Buffer, isHead: boolean): { readonly end: number; readonly isLast: boolean } | null {
  const at = bytes.indexOf('\r\n\r\n');
  if (at === -1) return null;
  const head = bytes.toString('latin1', 0, at);
  const isLast = /\r\nconnection: close/i.test(head);
  const isEmpty = isHead || /^HTTP\/1\.1 (?:1..|204|304)/.test(head);
  if (isEmpty) return { end: at + 4, isLast };
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  if (length !== undefined) {
    const end = at + 4 + Number(length);
    return bytes.length < end ? null : { end, isLast };
  }
  const end = bytes.indexOf('\r\n0\r\n\r\n', at);
  return end === -1 ? null : { end: end + 7, isLast };
}

/** Makes a client that keeps its connection for as long as the server does. */
export function createRawClient(port: number): RawClient {
  let socket: Socket | null = null;

  async function connected(): Promise<Socket> {
    if (socket !== null && !socket.destroyed && socket.writable) return socket;
    const fresh = connect(port, '127.0.0.1');
    // Told by the end of what it gives.
    fresh.on('error', () => {});
    await Promise.race([once(fresh, 'connect'), once(fresh, 'close')]);
    socket = fresh;
    return fresh;
  }

  return {
    async ask(request) {
      const own = await connected();
      own.write(request);
      const isHead = request.toString('latin1', 0, 5).startsWith('HEAD ');
      let bytes: Buffer = Buffer.alloc(0);
      return new Promise((resolve) => {
        const done = (isLast: boolean): void => {
          own.off('data', take).off('close', cut);
          if (isLast) own.destroy();
          const status = /^HTTP\/1\.1 (\d{3})/.exec(bytes.toString('latin1', 0, 20))?.[1];
          resolve(Number(status ?? 0));
        };
        const cut = (): void => done(true);
        const take = (chunk: Buffer): void => {
          bytes = Buffer.concat([bytes, chunk]);
          const found = endOf(bytes, isHead);
          if (found !== null) done(found.isLast);
        };
        own.on('data', take).once('close', cut);
        if (own.destroyed) cut();
      });
    },
    close: () => socket?.destroy(),
  };
}

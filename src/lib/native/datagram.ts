import { lastError, openLibc } from './library.ts';

const AF_UNIX = 1;
const SOCK_DGRAM_CLOEXEC = 0o2 | 0o2000000;
const MSG_NOSIGNAL = 0x4000;

/** The size of `sun_path` (unix(7)). */
const MAX_PATH_BYTES = 108;

/** Sends one datagram. Throws an error with a `code`, as Node's own calls do. */
export type SendDatagram = (text: string) => void;

/**
 * Makes a sender to a unix datagram socket, which Node lacks: `socket(2)`, `sendto(2)`.
 * @param path the socket's path; one that starts with `@` is in the abstract namespace (unix(7))
 */
export function datagramTo(path: string): SendDatagram {
  const libc = openLibc();
  const socket = libc.func('int socket(int domain, int type, int protocol)');
  const sendto = libc.func(
    'intptr_t sendto(int fd, const uint8_t *buffer, size_t length, int flags, const uint8_t *address, uint32_t addressLength)',
  );
  const close = libc.func('int close(int fd)');
  const address = addressOf(path);
  return (text) => {
    const fd = Number(socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0));
    if (fd < 0) throw lastError('socket');
    try {
      const bytes = Buffer.from(text);
      const sent = Number(sendto(fd, bytes, bytes.length, MSG_NOSIGNAL, address, address.length));
      if (sent < 0) throw lastError('sendto');
    } finally {
      close(fd);
    }
  };
}

/** `struct sockaddr_un`: the family in the machine's byte order, then the path. */
function addressOf(path: string): Buffer {
  const isAbstract = path.startsWith('@');
  const name = Buffer.from(isAbstract ? `\0${path.slice(1)}` : `${path}\0`);
  if (name.length > MAX_PATH_BYTES)
    throw Object.assign(new Error('ENAMETOOLONG: the socket’s path is too long'), { code: 'ENAMETOOLONG' });
  const family = Buffer.from(new Uint16Array([AF_UNIX]).buffer);
  return Buffer.concat([family, name]);
}

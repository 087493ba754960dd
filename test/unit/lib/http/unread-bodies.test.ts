import { EventEmitter } from 'node:events';
import { createServer } from 'node:http';

import { expect, it, vi } from 'vitest';

import { cutUnreadBodies } from '../../../../src/lib/http/unread-bodies.ts';

it('a request whose socket is gone when it was answered does no harm', () => {
  const server = createServer();
  cutUnreadBodies(server);
  const destroy = vi.fn();
  const request = { complete: false, socket: { bytesRead: 0, destroyed: true, destroy } as object | null };
  const response = new EventEmitter();
  server.emit('request', request, response);
  request.socket = null;
  expect(() => response.emit('finish')).not.toThrow();
  expect(destroy).not.toHaveBeenCalled();
});

import type { Readable, Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';

import { MirrorError } from '../../lib/errors/errors.ts';

/**
 * Undoes a content coding that some proxy applied without being asked (RFC 9110, section 8.4).
 * @throws MirrorError `service.wrong_kind` for a coding that is not known, or several: the bytes would be garbage
 */
export function decoded(body: Readable, encoding: string | undefined, url: URL): Readable {
  const coding = (encoding ?? '').trim().toLowerCase();
  if (coding === '' || coding === 'identity') return body;
  const decoder = decoderFor(coding);
  if (decoder === null) throw unknownCoding(coding, url);
  body.on('error', (error) => decoder.destroy(error));
  decoder.on('close', () => body.destroy());
  return body.pipe(decoder);
}

function decoderFor(coding: string): Transform | null {
  switch (coding) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip();
    case 'deflate':
      return createInflate();
    case 'br':
      return createBrotliDecompress();
    case 'zstd':
      return createZstdDecompress();
    default:
      return null;
  }
}

function unknownCoding(coding: string, url: URL): MirrorError {
  return new MirrorError(
    'service.wrong_kind',
    `${url.origin}${url.pathname} answered in the content coding ${JSON.stringify(coding.slice(0, 50))}, which is not understood.`,
    { hint: 'Something between here and the service compresses answers without being asked: turn it off.' },
  );
}

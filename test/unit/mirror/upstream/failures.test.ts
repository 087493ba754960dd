import { expect, it } from 'vitest';

import { kindOf } from '../../../../src/mirror/upstream/failures.ts';

it.each([
  ['', undefined, 'nothing'],
  [' \n', 'text/html', 'nothing'],
  ['<!DOCTYPE html><html>', undefined, 'an HTML page'],
  ['\n  <html lang="en">', undefined, 'an HTML page'],
  ['<head>', undefined, 'an HTML page'],
  ['<BODY>', undefined, 'an HTML page'],
  ['Please log in', 'text/html; charset=utf-8', 'an HTML page'],
  ['<?xml version="1.0"?>', 'application/xml', 'XML'],
  ['<error/>', undefined, 'XML'],
  ['{"detail": "no"}', 'application/json', 'JSON'],
  ['[]', undefined, 'JSON'],
  ['PK\u0003\u0004', 'application/zip', 'a zip archive'],
  ['502 Bad Gateway', 'text/plain', 'something else'],
])('an answer seems to be %j of type %j: %s', (start, contentType, kind) => {
  expect(kindOf(start, contentType)).toBe(kind);
});

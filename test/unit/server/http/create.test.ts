import { assert, jsonValue, property } from 'fast-check';
import { expect, it } from 'vitest';

import { readCreation } from '../../../../src/server/http/create.ts';

it('the body of a request to create a repository has one of two shapes', () => {
  expect(readCreation({ name: 'A', url: null, more: 1 })).toBe('A');
  expect(readCreation({ name: 'A', username: '', password: '' })).toBe('A');
  expect(readCreation({ url: 'u' })).toEqual({ url: 'u', username: null, password: null });
  assert(
    property(jsonValue(), (value) => {
      try {
        readCreation(value);
      } catch (error) {
        expect(error).toMatchObject({ status: 400, code: 'invalid' });
      }
    }),
  );
});

import { describe, expect, it } from 'vitest';

import { checkRepositoryName, readAddress } from '../../../../src/server/git/addresses.ts';

function refusal(code: string): unknown {
  return expect.objectContaining({ status: 400, code });
}

describe('the address of an external repository', () => {
  it.each([
    ['https', 'git.example.com', 'planning/forecast.git', 'forecast'],
    ['HTTPS', 'Host:8443', 'a/@b/c.d.git', 'c.d'],
    ['https', '[::1]:8443', 'Zürich%20x.git', 'Zürich%20x'],
  ])('gives the names of %s://%s/%s', (scheme, host, path, name) => {
    const names = { protocol: 'https', name, fullName: `${host}/${path}` };
    for (const sources of ['https', 'any'] as const)
      expect(readAddress(`${scheme}://${host}/${path}`, sources)).toEqual(names);
  });

  it.each<[string, string, string]>([
    ['http://host/plan.git', 'http', 'host/plan.git'],
    ['/srv/x y/plan.git', 'file', 'localhost/srv/x y/plan.git'],
    ['file:///srv/x/plan.git', 'file', 'localhost/srv/x/plan.git'],
  ])('may be %s for trials only', (text, protocol, fullName) => {
    expect(readAddress(text, 'any')).toMatchObject({ protocol, fullName, name: 'plan' });
    expect(() => readAddress(text, 'https')).toThrow(refusal('forbidden_scheme'));
  });

  it.each([
    'https://host/plan',
    'https://host/.git',
    'https://host/a plan.git',
    'https://plan.git',
    'https://host/../plan.git',
    'https://host/./plan.git',
    'https://host/a/%2E./plan.git',
    'https://host/a/plan.git?x=.git',
    'https://host/a/plan.git#.git',
    'https://host//plan.git',
    'https://host/plan.git/',
    'https://-oProxyCommand=x/plan.git',
    'https://host:99999/plan.git',
    String.raw`https://host\a/plan.git`,
    'https://user:secret@host/plan.git',
    'https://host/plan.git\nsecret',
    'https://host/\ud800.git',
    'file://host/srv/plan.git',
    'file:///srv/../plan.git',
    '/srv/plan',
  ])('cannot be %s', (text) => {
    expect(() => readAddress(text, 'any')).toThrow(refusal('invalid'));
    expect(() => readAddress(text, 'any')).not.toThrow(/secret/);
  });

  it.each([
    'plan.git',
    'git@host:a/plan.git',
    'ssh://host/plan.git',
    'ext::id %G plan.git',
    '--upload-pack=x.git',
    'https:/host/plan.git',
  ])('may never have the scheme of %s', (text) => {
    for (const sources of ['https', 'any'] as const) {
      expect(() => readAddress(text, sources)).toThrow(refusal('forbidden_scheme'));
    }
  });
});

it('a repository takes any visible name without slashes', () => {
  const id = '0b9f4c9e-8a7d-4e0e-9d0c-1f2a3b4c5d6e';
  for (const name of ['Übersicht Köln', '--help', '50% #1', 'contents', '会計', '👩\u200d💻 2'])
    expect(() => checkRepositoryName(name)).not.toThrow();
  const invisible = ['a\u0000', 'a\u200bb', '\u200b', 'a\u202eb', 'a\u2028b', '\u2060x', '\ud800'];
  const likeOthers = [id, id.toUpperCase(), 'plan.git', 'Plan.GIT'];
  const parts = ['', ' ', ' x', '.', '..', 'a/b', 'a\\b', '---', 'é'.repeat(128)];
  const refusal = expect.objectContaining({ status: 400, code: 'invalid' }) as Error;
  for (const name of [...parts, ...invisible, ...likeOthers])
    expect(() => checkRepositoryName(name)).toThrow(refusal);
});

import { assert, jsonValue, property, string } from 'fast-check';
import { describe, expect, it } from 'vitest';

import { repositoryOf } from '../../../../src/cli/service/repos.ts';
import { readAddress } from '../../../../src/server/git/addresses.ts';
import { formatCredentials, secretsOf } from '../../../../src/server/external/credentials.ts';
import { describeComplaint } from '../../../../src/server/external/errors.ts';
import { accessTo } from '../../../../src/server/external/reach.ts';
import { parseReferences } from '../../../../src/server/external/remote.ts';
import { readCreation } from '../../../../src/server/http/create.ts';

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
    `https://host/${'x'.repeat(2100)}.git`,
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

describe('credentials', () => {
  it('are written as Git reads them', () => {
    const line = string({ unit: 'grapheme' }).filter((text) => !/\p{Cc}/u.test(text));
    assert(
      property(line, line, (username, password) => {
        const secrets = secretsOf(formatCredentials({ username, password }));
        expect(password === '' || secrets.includes(password)).toBe(true);
        expect(secrets).toContain(Buffer.from(`${username}:${password}`).toString('base64'));
      }),
    );
  });

  it.each([
    ['username=reader\npassword=s3cret-word'],
    ['password=s3cret-word\nusername=reader\n'],
    ['protocol=https\nusername=reader\npassword=s3cret-word\n\n'],
    ['username=s3cret-word\npassword=\n'],
    ['password=s3cret-word\n'],
  ])('are hidden in repeated text, for any spelling in the file: %j', (text) => {
    const secrets = secretsOf(text);
    const bare = 's3cret-word';
    const carried = ['reader:s3cret-word', 's3cret-word:'].map((each) =>
      Buffer.from(each).toString('base64'),
    );
    const inRequest = carried.find((each) => secrets.includes(each)) ?? carried[0];
    const said = `git fetch ended with 128: fatal: HTTP 403: you sent ${inRequest}, that is ${bare}; ${text}`;
    const error = describeComplaint(said, secrets);
    expect(error.trouble).toBe('credentials_refused');
    expect(`${error.message} ${error.hint}`).not.toContain(bare);
    expect(carried.some((each) => error.message.includes(each))).toBe(false);
  });

  it('suppress the server’s text if they are too short to be redacted in it', () => {
    const secrets = secretsOf('username=reader\npassword=abc\n');
    expect(describeComplaint('HTTP 403: remote: you sent abc', secrets).message).not.toContain('abc');
    expect(describeComplaint('remote: no', secretsOf('username=r\npassword=abcd\n')).message).toContain('no');
  });

  it('are requested only for the origin of the address, and are in no variable', () => {
    const remote = {
      source: 'https://host:8443/a/plan.git',
      protocol: 'https',
      credentialFile: "/it's/$(here)",
    } as const;
    const { settings, environment } = accessTo(remote);
    expect(settings.filter((each) => each.startsWith('credential.'))).toEqual([
      'credential.helper=',
      expect.stringMatching(/^credential\.https:\/\/host:8443\.helper=!/),
    ]);
    expect(settings).toContain('http.followRedirects=false');
    expect(settings.join()).not.toContain(remote.credentialFile);
    expect(environment).toMatchObject({ GIT_ALLOW_PROTOCOL: 'https', GIT_ASKPASS: '' });
    const local = accessTo({ ...remote, source: '/a/plan.git', protocol: 'file' });
    expect(local.environment.GIT_ALLOW_PROTOCOL).toBe('file');
    expect(local.settings).toHaveLength(settings.length - 1);
  });

  it.each([
    ["fatal: could not read Username for 'https://h': terminal prompts disabled", 'credentials_refused'],
    [
      "fatal: unable to access 'https://h/p.git/': The requested URL returned error: 403",
      'credentials_refused',
    ],
    ["fatal: unable to access 'https://h/p.git/': The requested URL returned error: 500", 'unreachable'],
  ])('are the cause, or not: %s', (complaint, trouble) => {
    expect(describeComplaint(complaint, []).trouble).toBe(trouble);
  });
});

const ID = { one: '1'.repeat(40), two: '2'.repeat(40) };

describe('the references of another repository', () => {
  it('are its branches, symbolic ones too, and tags, without the targets of tags', () => {
    const lines = [
      'ref: refs/heads/main\tHEAD',
      `${ID.one}\tHEAD`,
      `${ID.one}\trefs/heads/main`,
      'ref: refs/heads/main\trefs/heads/master',
      `${ID.one}\trefs/heads/master`,
      `${ID.two}\trefs/tags/v1`,
      `${ID.one}\trefs/tags/v1^{}`,
      `${ID.two}\trefs/pull/1/head`,
    ];
    const references = parseReferences(lines.join('\n'));
    expect(references.head).toBe('refs/heads/main');
    expect(references.lines).toEqual([
      `${ID.one}\trefs/heads/main`,
      `${ID.one}\trefs/heads/master`,
      `${ID.two}\trefs/tags/v1`,
    ]);
  });

  it('name a default branch only if it exists', () => {
    const headOf = (head: string): string | null =>
      parseReferences(`ref: ${head}\tHEAD\n${ID.one}\trefs/heads/main`).head;
    expect(headOf('refs/heads/main')).toBe('refs/heads/main');
    expect(headOf('refs/heads/gone')).toBeNull();
    expect(headOf('refs/heads/ain')).toBeNull();
    expect(parseReferences(`${ID.one}\trefs/heads/main`).head).toBeNull();
  });
});

describe('the body of a request to create', () => {
  it('has one of two shapes', () => {
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
});

describe('repos create', () => {
  const read = (): Promise<string> => Promise.resolve('secret\r\n');

  it('sends the values of the flags', async () => {
    expect(await repositoryOf({ name: 'A' }, read)).toEqual({ name: 'A' });
    expect(await repositoryOf({ url: 'u' }, read)).toEqual({ url: 'u' });
    expect(await repositoryOf({ url: 'u', username: 'n', passwordFile: 'f' }, read)).toEqual({
      url: 'u',
      username: 'n',
      password: 'secret',
    });
  });

  it.each<[Parameters<typeof repositoryOf>[0], string]>([
    [{}, 'p'],
    [{ name: 'A', url: 'u' }, 'p'],
    [{ url: 'u', username: 'n' }, 'p'],
    [{ url: 'u', passwordFile: 'f' }, 'p'],
    [{ name: 'A', username: 'n', passwordFile: 'f' }, 'p'],
    [{ url: 'u', username: 'n', passwordFile: 'f' }, ''],
  ])('refuses %j with the password %j', async (flags, password) => {
    const refused = repositoryOf(flags, () => Promise.resolve(`${password}\n`));
    await expect(refused).rejects.toMatchObject({ code: 'usage.invalid' });
  });
});

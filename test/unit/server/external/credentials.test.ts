import { assert, property, string } from 'fast-check';
import { describe, expect, it } from 'vitest';

import { formatCredentials, secretsOf } from '../../../../src/server/external/credentials.ts';
import { describeComplaint } from '../../../../src/server/external/errors.ts';
import { accessTo } from '../../../../src/server/external/reach.ts';

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

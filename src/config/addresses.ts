import { isIPv6 } from 'node:net';

import type { ListenPlace } from '../lib/http/server.ts';
import { kindOf, secretKind } from './kinds.ts';
import { invalidValue } from './problems.ts';
import { Secret } from './secret.ts';

/** Parsers of the settings that are addresses. Their messages leave the text out: it may hold a password. */

/** The store for the state cache. */
export type StateSetting =
  | { readonly store: 'sqlite' }
  | {
      readonly store: 'redis' | 'postgres';
      /** The address as it was given; printed with its password masked. */
      readonly address: Secret;
    };

/** Query parameters of a database address that can hold a password (libpq's `password`, `sslpassword` and the like). */
const SECRET_PARAMETER = /pass|pwd|secret|token|key/i;

/** The address of a service, without a trailing slash once parsed. */
export const baseUrl = kindOf('<url>', parseBaseUrl, { kind: 'address' });

function parseBaseUrl(text: string): string {
  const url = /^https?:\/\/[^\s\p{Cc}\\]+$/iu.test(text) ? URL.parse(text) : null;
  if (url === null) {
    throw invalidValue('expected an http:// or https:// address, such as https://workbooks.example.com/api');
  }
  if (url.username !== '' || url.password !== '') {
    throw invalidValue('expected an address without user name and password; give service.apiKey instead');
  }
  if (/[?#]/.test(text)) throw invalidValue('expected an address without "?" and "#"');
  return url.origin + url.pathname.replace(/\/+$/, '');
}

/** An address to listen on; an IPv6 address is in brackets. */
export const listen = kindOf('<host:port>', parseListen, { spell: formatListen });

function parseListen(text: string): ListenPlace {
  const [, bracketed, name, portText] = /^(?:\[([^[\]]*)\]|([^\s:/@[\]]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = bracketed ?? name;
  const port = Number(portText);
  const hostIsValid =
    bracketed === undefined ? name !== undefined && /^[a-z0-9._-]+$/i.test(name) : isIPv6(bracketed);
  if (host === undefined || !hostIsValid || port > 65_535) {
    throw invalidValue('expected host:port, such as 127.0.0.1:9400 or [::1]:9400');
  }
  return { host, port };
}

/** Formats an address as in the setting. */
export function formatListen({ host, port }: ListenPlace): string {
  return `${isIPv6(host) ? `[${host}]` : host}:${String(port)}`;
}

/** The choice of the state cache; passwords in its address are masked. */
export const state = kindOf('<sqlite|address>', parseState, {
  kind: 'address',
  spell: (value: StateSetting) => (value.store === 'sqlite' ? value.store : value.address.toString()),
});

function parseState(text: string): StateSetting {
  if (text === 'sqlite') return { store: 'sqlite' };
  const isStore = /^(?:rediss?|valkeys?|postgres(?:ql)?):\/\/[^\s\p{Cc}]*$/iu.test(text);
  const url = isStore ? URL.parse(text) : null;
  if (url === null) {
    throw invalidValue(
      'expected sqlite, or an address that starts with redis://, rediss://, valkey://, valkeys://, postgres:// or' +
        ' postgresql:// (special characters of a password percent-encoded)',
    );
  }
  // Signs of a password with a bare "#", "/" or "?" in it: the rest of it would be printed as a part of the path.
  if (text.includes('#') || /@/.test(url.pathname + url.search)) {
    throw invalidValue('expected an address in which special characters of the password are percent-encoded');
  }
  const store = url.protocol.startsWith('postgres') ? 'postgres' : 'redis';
  if (store === 'redis' && url.hostname === '') throw invalidValue('expected an address with a host');
  return { store, address: new Secret(() => [text], masked(url)) };
}

/** Whether the address of a state cache holds a password. */
export function hasPassword(address: string): boolean {
  const url = URL.parse(address);
  return url !== null && url.href !== masked(url);
}

/** An address without its passwords, in its user part and its parameters. */
function masked(address: URL): string {
  const url = new URL(address);
  if (url.password !== '') url.password = '***';
  for (const name of new Set(url.searchParams.keys()))
    if (SECRET_PARAMETER.test(name)) url.searchParams.set(name, '***');
  return url.href;
}

/** The address of a receiver of notifications, as a secret: its path may be its only protection. */
export const secretAddress = secretKind('<url>', (text) => {
  const url = /^https?:\/\/[^\s\\]+$/i.test(text) ? URL.parse(text) : null;
  return url === null ? 'expected an http:// or https:// address' : undefined;
});

/** The length of a key, in bytes (Standard Webhooks specification, "Signature scheme"). */
const SIGNING_KEY_BYTES = { least: 24, most: 64 } as const;

/** The bytes of a signing key, in base64 with or without `whsec_` before it. */
export function signingKey(text: string): Uint8Array {
  return Buffer.from(text.replace(/^whsec_/, ''), 'base64');
}

/** A signing key, as a secret. */
export const secretKey = secretKind('<secret>', (text) => {
  const { least, most } = SIGNING_KEY_BYTES;
  const { length } = signingKey(text);
  return /^(?:whsec_)?[A-Za-z0-9+/]+={0,2}$/.test(text) && length >= least && length <= most
    ? undefined
    : `expected ${least} to ${most} bytes in base64, with or without whsec_ before them`;
});

import { ReceiveBuffers } from '../../src/mirror/upstream/connections.ts';

/** Overwrites each returned piece of a body: code that returns one too early then always reads nonsense, not only sometimes. */
const POISON = 0xdb;

type GiveBack = (this: ReceiveBuffers, piece: Uint8Array) => void;

const giveBack: GiveBack = Reflect.get(ReceiveBuffers.prototype, 'giveBack');

ReceiveBuffers.prototype.giveBack = function poison(this: ReceiveBuffers, piece) {
  giveBack.call(this, piece);
  piece.fill(POISON);
};

import assert from 'node:assert/strict';
import test from 'node:test';
import { OtherServers } from '../../src/db/other-servers.ts';

test('a server is alone when it listens and nobody has answered, until somebody speaks', () => {
  const neighbours = new OtherServers();
  assert.equal(neighbours.isAlone(100_000), false, 'who does not listen cannot know');
  neighbours.listens(100_000);
  assert.equal(neighbours.isAlone(100_500), false, 'others may still be answering');
  assert.equal(neighbours.isAlone(101_500), true);

  assert.equal(neighbours.noteMessage('other', 102_000), true, 'that one is new');
  assert.equal(neighbours.noteMessage('other', 112_000), false);
  assert.equal(neighbours.isAlone(113_000), false);
  assert.equal(neighbours.isAlone(141_000), false, 'two of its words may be lost');
  assert.equal(neighbours.isAlone(143_000), true, 'it is gone');
  assert.equal(neighbours.noteMessage('other', 144_000), true);

  neighbours.isDeaf();
  assert.equal(neighbours.isAlone(200_000), false, 'nobody was heard, because nobody could be');
});

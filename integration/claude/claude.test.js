import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { scenes } from '../world/scenes.js';
import { World } from '../world/world.js';
import { converse } from './claude.js';

let world;
before(async () => { world = await World.open(); });
after(() => world.close());

scenes('Claude Agent SDK', () => world, async (c, prompt) => {
	for await (const message of converse({ ...c.connection, model: c.model, prompt, home: mkdtempSync(join(world.folder, 'home-')) })) {
		if (process.env.SHOW) console.log(JSON.stringify(message).slice(0, 600));
		if (message.type === 'result') return message.result;
	}
});

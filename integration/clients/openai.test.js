import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { scenes } from '../world/scenes.js';
import { World } from '../world/world.js';
import { connect } from './openai.js';

let world;
before(async () => { world = await World.open(); });
after(() => world.close());

for (const useResponses of [true, false]) {
	for (const stream of [false, true]) {
		scenes(`OpenAI Agents, ${useResponses ? 'responses' : 'chat'}${stream ? ' streamed' : ''}`, () => world, async (c, prompt) => {
			const { server, agent, runner } = await connect({ ...c.connection, model: c.model, useResponses });
			const result = await runner.run(agent, prompt, { stream });
			if (stream) await result.completed;
			await server.close();
			return result.finalOutput;
		});
	}
}

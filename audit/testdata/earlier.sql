-- Records of a schema before retention (0020), as its program wrote and sealed them: a call that ran with a
-- person's yes, and one that was approved and has not run. Calls have no salt, and events name arguments by a plain
-- digest. The log is signed with the key that follows from the test's own seed.
INSERT INTO runs (tenant, id, lineage, parent, issuer, subject, agent, label, vouched, turn, turns, state, version, opened, active, ended, why, delegation, replays, granted, until) VALUES
  ('acme', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'lin_1', '', 'i', 'anna', 'bot', '', 0, 1, 0, 'model_pending', 1, 1796115600000000, 1796115600000000, 0, '', '', '', '', 0);
INSERT INTO calls (tenant, id, run, lineage, turn, kept, issuer, subject, agent, tool, server, tool_version, pin, read_only, arguments, input, digest, effect, occurrence, source, route, purpose, details, state, version, decision, binding, approval, attempt, attempts, key, lease, holds, outcome, result, proposed, changed, expires, due, holder, queued, again) VALUES
  ('acme', 'call_06h31n8pd2xyzjnd5amm8swfrw', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'lin_1', 1, 0, 'i', 'anna', 'bot', 'refund', 'desk', X'748CDDCF29A285378D5ED89ABAADEA778AB589EAF7BBF8F87F84F2327A31EDA6', X'5FBC4B0D8B3760C3EDCD5FA06F760304A9FB141E381AF65CC20CAAE24B909CB6', 0, '{"note":"ended","order":"ord_1"}', '', X'54F8F79DB3EB1417AAAA35854DFF6224A6EA9E419275A2F6A7644BCACF71503D', X'0C1B3E663F60C09F1E8B6A6DDE5545A607B27617BA6D3A753419ED89C18382F6', '', 'direct', 'api', 'T-88', '{"targets":[{"argument":"order","value":"ord_1"}],"effect":"Refund ended"}', 'succeeded', 3, '{"verdict":"allow","code":"approval_required","reasons":null,"approval":{"parts":[{"from":"registry","people":[{"issuer":"i","subject":"lena"}],"quorum":1}],"expires":3600000000000,"self":false},"generation":1,"decided_by":"sha256:x","at":"2026-12-01T09:00:01Z"}', X'0EC7EA15A8CE5B7E49FD36BE045A90DA6E19D9ADED38F7131282EA877F92239F', 'apr_06h31n8pd0wjawr1vm9mw2966c', 1, 1, 'nmbk7y1h6jsyg2vbgzk4xbbbnknjcwx2', 0, '[]', '{"sent":true,"is_error":false,"result_digest":"sha256:71adc5a7cea6716fd36bae91bd06e725641d227df8132b2490a2813aa7ae5b3e","at":"2026-12-01T09:00:01Z"}', X'7B22636F6E74656E74223A5B7B2274797065223A2274657874222C2274657874223A22726566756E64656420656E646564227D5D7D', 1796115601000000, 1796115601000000, 1796119201000000, NULL, X'', 0, NULL);
INSERT INTO calls (tenant, id, run, lineage, turn, kept, issuer, subject, agent, tool, server, tool_version, pin, read_only, arguments, input, digest, effect, occurrence, source, route, purpose, details, state, version, decision, binding, approval, attempt, attempts, key, lease, holds, outcome, result, proposed, changed, expires, due, holder, queued, again) VALUES
  ('acme', 'call_06h31n8ta2hn4941n5rcbn0zyr', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'lin_1', 1, 0, 'i', 'anna', 'bot', 'refund', 'desk', X'748CDDCF29A285378D5ED89ABAADEA778AB589EAF7BBF8F87F84F2327A31EDA6', X'5FBC4B0D8B3760C3EDCD5FA06F760304A9FB141E381AF65CC20CAAE24B909CB6', 0, '{"note":"approved","order":"ord_1"}', '', X'8C30B1DC0D4A79EF25C99A897CACCD172AC3EAE57423B6B3FB237193C470A7D8', X'FBCCD18823326459CA9ACBC13DFB8C074EEFD1EED791EBF43A0B3E343C07403E', '', 'direct', 'api', 'T-88', '{"targets":[{"argument":"order","value":"ord_1"}],"effect":"Refund approved"}', 'approval_pending', 1, '{"verdict":"requires-approval","code":"approval_required","reasons":null,"approval":{"parts":[{"from":"registry","people":[{"issuer":"i","subject":"lena"}],"quorum":1}],"expires":3600000000000,"self":false},"generation":1,"decided_by":"sha256:x","at":"2026-12-01T09:00:02Z"}', X'5D9862029E940F29A5ACFAB8431ADE4BC686732CBE91451E8B9DF5E6A7D9503A', 'apr_06h31n8ta0ztyd6ft6nhw7xp84', 0, 1, '', 0, '[]', '', NULL, 1796115602000000, 1796115602000000, 1796119202000000, 1796119202000000, X'', 0, NULL);
INSERT INTO approvals (tenant, id, call, run, lineage, issuer, subject, agent, binding, rule, code, state, version, replaces, asked, expires, changed, audience, tool, preview) VALUES
  ('acme', 'apr_06h31n8pd0wjawr1vm9mw2966c', 'call_06h31n8pd2xyzjnd5amm8swfrw', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'lin_1', 'i', 'anna', 'bot', X'0EC7EA15A8CE5B7E49FD36BE045A90DA6E19D9ADED38F7131282EA877F92239F', '{"parts":[{"from":"registry","people":[{"issuer":"i","subject":"lena"}],"quorum":1}],"expires":3600000000000,"self":false}', 'approval_required', 'consumed', 3, '', 1796115601000000, 1796119201000000, 1796115601000000, 5438961297488378407, 'refund', '');
INSERT INTO approvals (tenant, id, call, run, lineage, issuer, subject, agent, binding, rule, code, state, version, replaces, asked, expires, changed, audience, tool, preview) VALUES
  ('acme', 'apr_06h31n8ta0ztyd6ft6nhw7xp84', 'call_06h31n8ta2hn4941n5rcbn0zyr', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'lin_1', 'i', 'anna', 'bot', X'5D9862029E940F29A5ACFAB8431ADE4BC686732CBE91451E8B9DF5E6A7D9503A', '{"parts":[{"from":"registry","people":[{"issuer":"i","subject":"lena"}],"quorum":1}],"expires":3600000000000,"self":false}', 'approval_required', 'approved', 2, '', 1796115602000000, 1796119202000000, 1796115602000000, 5438961297488378407, 'refund', '');
INSERT INTO answers (tenant, approval, issuer, subject, word, note, groups, binding, at, proof, session) VALUES
  ('acme', 'apr_06h31n8pd0wjawr1vm9mw2966c', 'i', 'lena', 'approved', '', 'null', X'0EC7EA15A8CE5B7E49FD36BE045A90DA6E19D9ADED38F7131282EA877F92239F', 1796115601000000, '', '');
INSERT INTO answers (tenant, approval, issuer, subject, word, note, groups, binding, at, proof, session) VALUES
  ('acme', 'apr_06h31n8ta0ztyd6ft6nhw7xp84', 'i', 'lena', 'approved', '', 'null', X'5D9862029E940F29A5ACFAB8431ADE4BC686732CBE91451E8B9DF5E6A7D9503A', 1796115602000000, '', '');
INSERT INTO counters (tenant, counter, level) VALUES
  ('acme', 'open_principal|i|anna', '1');
INSERT INTO counters (tenant, counter, level) VALUES
  ('acme', 'open_turn|run_06h31n8jg0pjg6abt3nrr1dkcg|1', '1');
INSERT INTO counters (tenant, counter, level) VALUES
  ('acme', 'open|lin_1', '1');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (1, 1796115600000000, 'acme', 'run_opened', 'run_06h31n8jg0pjg6abt3nrr1dkcg', '', '', '{"system":"test"}', '{"turn":1}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (2, 1796115601000000, 'acme', 'proposed', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8pd2xyzjnd5amm8swfrw', '', '{"principal":{"issuer":"i","subject":"anna"},"agent":"bot"}', '{"tool":"refund","source":"direct","route":"api","argument_digest":"sha256:54f8f79db3eb1417aaaa35854dff6224a6ea9e419275a2f6a7644bcacf71503d","effect_key":"sha256:0c1b3e663f60c09f1e8b6a6dde5545a607b27617ba6d3a753419ed89c18382f6","tool_version":"sha256:748cddcf29a285378d5ed89abaadea778ab589eaf7bbf8f87f84f2327a31eda6","turn":1,"redacted":["arguments"]}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (3, 1796115601000000, 'acme', 'approval_requested', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8pd2xyzjnd5amm8swfrw', 'apr_06h31n8pd0wjawr1vm9mw2966c', '{"principal":{"issuer":"i","subject":"anna"},"agent":"bot"}', '{"tool":"refund","verdict":"requires-approval","code":"approval_required","binding":"sha256:0ec7ea15a8ce5b7e49fd36be045a90da6e19d9aded38f7131282ea877f92239f","decided_by":"sha256:x","generation":1}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (4, 1796115601000000, 'acme', 'answered', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8pd2xyzjnd5amm8swfrw', 'apr_06h31n8pd0wjawr1vm9mw2966c', '{"principal":{"issuer":"i","subject":"lena"}}', '{"binding":"sha256:0ec7ea15a8ce5b7e49fd36be045a90da6e19d9aded38f7131282ea877f92239f","word":"approved"}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (5, 1796115601000000, 'acme', 'approved', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8pd2xyzjnd5amm8swfrw', 'apr_06h31n8pd0wjawr1vm9mw2966c', '{"principal":{"issuer":"i","subject":"lena"}}', '{"binding":"sha256:0ec7ea15a8ce5b7e49fd36be045a90da6e19d9aded38f7131282ea877f92239f","word":"approved"}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (6, 1796115601000000, 'acme', 'authorized', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8pd2xyzjnd5amm8swfrw', '', '{"principal":{"issuer":"i","subject":"anna"},"agent":"bot"}', '{"tool":"refund","verdict":"allow","code":"approval_required","binding":"sha256:0ec7ea15a8ce5b7e49fd36be045a90da6e19d9aded38f7131282ea877f92239f","decided_by":"sha256:x","generation":1}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (7, 1796115601000000, 'acme', 'executing', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8pd2xyzjnd5amm8swfrw', 'apr_06h31n8pd0wjawr1vm9mw2966c', '{"principal":{"issuer":"i","subject":"anna"},"agent":"bot"}', '{"tool":"refund","argument_digest":"sha256:54f8f79db3eb1417aaaa35854dff6224a6ea9e419275a2f6a7644bcacf71503d","binding":"sha256:0ec7ea15a8ce5b7e49fd36be045a90da6e19d9aded38f7131282ea877f92239f","decided_by":"sha256:x","generation":1,"attempt":1,"idempotency_key":"nmbk7y1h6jsyg2vbgzk4xbbbnknjcwx2","lease":"2026-12-01T09:01:01Z"}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (8, 1796115601000000, 'acme', 'approval_consumed', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8pd2xyzjnd5amm8swfrw', 'apr_06h31n8pd0wjawr1vm9mw2966c', '{"system":"boundary"}', '{"binding":"sha256:0ec7ea15a8ce5b7e49fd36be045a90da6e19d9aded38f7131282ea877f92239f"}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (9, 1796115601000000, 'acme', 'succeeded', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8pd2xyzjnd5amm8swfrw', '', '{"principal":{"issuer":"i","subject":"anna"},"agent":"bot"}', '{"tool":"refund","attempt":1,"result_digest":"sha256:71adc5a7cea6716fd36bae91bd06e725641d227df8132b2490a2813aa7ae5b3e"}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (10, 1796115602000000, 'acme', 'proposed', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8ta2hn4941n5rcbn0zyr', '', '{"principal":{"issuer":"i","subject":"anna"},"agent":"bot"}', '{"tool":"refund","source":"direct","route":"api","argument_digest":"sha256:8c30b1dc0d4a79ef25c99a897caccd172ac3eae57423b6b3fb237193c470a7d8","effect_key":"sha256:fbccd18823326459ca9acbc13dfb8c074eefd1eed791ebf43a0b3e343c07403e","tool_version":"sha256:748cddcf29a285378d5ed89abaadea778ab589eaf7bbf8f87f84f2327a31eda6","turn":1,"redacted":["arguments"]}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (11, 1796115602000000, 'acme', 'approval_requested', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8ta2hn4941n5rcbn0zyr', 'apr_06h31n8ta0ztyd6ft6nhw7xp84', '{"principal":{"issuer":"i","subject":"anna"},"agent":"bot"}', '{"tool":"refund","verdict":"requires-approval","code":"approval_required","binding":"sha256:5d9862029e940f29a5acfab8431ade4bc686732cbe91451e8b9df5e6a7d9503a","decided_by":"sha256:x","generation":1}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (12, 1796115602000000, 'acme', 'answered', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8ta2hn4941n5rcbn0zyr', 'apr_06h31n8ta0ztyd6ft6nhw7xp84', '{"principal":{"issuer":"i","subject":"lena"}}', '{"binding":"sha256:5d9862029e940f29a5acfab8431ade4bc686732cbe91451e8b9df5e6a7d9503a","word":"approved"}');
INSERT INTO events (seq, at, tenant, kind, run, call, approval, who, body) VALUES
  (13, 1796115602000000, 'acme', 'approved', 'run_06h31n8jg0pjg6abt3nrr1dkcg', 'call_06h31n8ta2hn4941n5rcbn0zyr', 'apr_06h31n8ta0ztyd6ft6nhw7xp84', '{"principal":{"issuer":"i","subject":"lena"}}', '{"binding":"sha256:5d9862029e940f29a5acfab8431ade4bc686732cbe91451e8b9df5e6a7d9503a","word":"approved"}');
INSERT INTO standing (tenant, issuer, subject, agent, epoch, since, lineage) VALUES
  ('acme', 'i', 'anna', 'bot', 0, 1796115600000000, 'lin_1');
INSERT INTO checkpoints (size, seq, epoch, at, salt, note) VALUES
  (9, 9, 1, 1796115601000000, X'43442C2F59B9A8098184425920FF1C82F312877425AE249347D017FCB2831DDF', 'log.test
9
YhmAkrUWuHqbJkh7RP+SGiwXKMZw7yUlFeDTa5gt9EM=
epoch 1
seq 9
time 2026-12-01T09:00:01Z
previous none

— log.test XftnNUnxOSCCSDWaN3LKUcApdC8HV7xfU5r8dCveykE0v4aVfrWY0K34sPMsjGn0tcgu3ntm3T9T8NglzKwi31fs5wc=
');
INSERT INTO checkpoints (size, seq, epoch, at, salt, note) VALUES
  (13, 13, 1, 1796115602000000, X'AAA2E88282B45FEE6654AF4AB998547AC74C238E1CB9F9C003FBDCB329EAA403', 'log.test
13
YycpIwqHpyXD6hKl6XV2rMX5R1GlvqhJ4d2kCWPEOxE=
epoch 1
seq 13
time 2026-12-01T09:00:02Z
previous sha256:8ac64df9dd22c01971f0c0be4c4747bb032da0b6557183c0075f24ed362e0956

— log.test XftnNfpQLfPkVg92+HAaH7NCPW0NURmbM1jirjHDHDjOwSg7Ymn/assODmVPdu9Ixqe9rA8nz8cdbhe6OJi+Du2mvAE=
');
INSERT INTO log_tiles (level, n, data) VALUES
  (0, 0, X'1B1FEFB71B18497654F1770D770AFE786F44538E9F1775F20B332FFFDBAF45CAD683E5DA25490F7ECF24763C43BD75F24992FF2DBFC4B9D7DF5EAB3061E466106CC007C1D2F2B63B287F2B18129322B3A86CC0924A2ADDEC84217402FD9D3B37BEF47193B557FED389B4B4EF6C9FDE74E020ECDC830DA8F5508470B76B88544C46DDFC15B1CE208735D6DFDF146DD6D0E04B3756A7460F7DB1A27E7D51DBE999DA84C10BDD71D294D1C3D6BABDAA557419152096EEAA675D0FECC4EF64FE17C5D7F5748498987285DF11EA7106A948ADB488F7679D5694EB40AC66A0C3612494CD41DA4F60B0C4488F70381D038F0329D81478133BBC9698518CE19D4EDBE07D68188A1B271069A880DDCB772617003B5120173995ADC067E1E334FE6F26537DB43AD7D88B0B905A3367B29ED16AB7216DD50068A8A3A7FAE806AFB571C13A78FD99213FE2680A9A795E8FFE26550994138E5C585DC53448A331E79D798520422B89BEE9224559ED945B1292CA1B971FE2DE6F476165189C3EEB00BC053E34C0DA11794DA0F916A4498207129B4A7FA9ADD5076DCCB8F8D6C96835D85A241F6F');

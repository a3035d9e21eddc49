package pdptest

// Certification is the policy that the API's certification scenario asks for:
// two users, two records, three actions, eight rules. It is written from the
// published text of that scenario.
func Certification(r Request) Response {
	who, what, on := r.Subject, r.Action, r.Resource
	status, role := on.Properties["status"], who.Properties["role"]
	switch {
	case on.Type != "record" || who.Type != "user":
		return Decide(false)
	case what.Name == "write" && status == "archived":
		return Decide(role == "admin") // 5, 6
	case who.ID == "alice" && on.ID == "record-1" && what.Name == "delete":
		return Decide(what.Properties["soft"] == true) // 7, 8
	case who.ID == "alice" && on.ID == "record-1":
		return Decide(what.Name == "read" || what.Name == "write") // 1, 2
	case who.ID == "bob" && on.ID == "record-1":
		return Decide(what.Name == "read") // 3, 4
	}
	return Decide(false)
}

// Todo is the policy of the working group's first interoperability scenario, a
// list of tasks, written from its published decisions: everyone reads, editors
// create and change what they own, an administrator deletes anything, and an evil
// genius changes anything.
func Todo(r Request) Response {
	roles := map[string]string{"rick@the-citadel.com": "admin evil_genius", "morty@the-citadel.com": "editor", "summer@the-smiths.com": "editor",
		"beth@the-smiths.com": "viewer", "jerry@the-smiths.com": "viewer"}
	role, known := roles[r.Subject.ID]
	own := role == "editor" && r.Resource.Properties["ownerID"] == r.Subject.ID
	genius := role == "admin evil_genius"
	switch r.Action.Name {
	case "can_read_user", "can_read_todos":
		return Decide(known)
	case "can_create_todo":
		return Decide(genius || role == "editor")
	case "can_update_todo", "can_delete_todo":
		return Decide(genius || own)
	}
	return Decide(false)
}

use ringfence_store::{SkillLanguage, SkillMeta, SkillName};

use super::*;

#[test]
fn a_skill_that_was_removed_and_saved_again_is_another_tool() {
    let home = tempfile::tempdir().unwrap();
    let skills = SkillRepository::open(home.path());
    let scope = SkillScope::Team;
    let name = SkillName::parse("pay").unwrap();
    let save = |source: &str| {
        let meta = SkillMeta::new(name.clone(), "Pays.", SkillLanguage::TypeScript);
        let body = SkillBody {
            source: source.to_owned(),
            files: Vec::new(),
        };
        skills.save(scope, meta, body).unwrap()
    };
    let first = save("export default 1");
    skills.remove(scope, &name).unwrap();
    let second = save("export default 2");
    assert_eq!((first.version, second.version), (1, 1));
    let digest = |skill: &Skill| skill_tool(skill).unwrap().digest;
    assert_ne!(digest(&first), digest(&second));
    assert_eq!(digest(&first), digest(&first));
}
